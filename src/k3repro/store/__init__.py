"""Layer `store` (see docs/design.md)."""
