"""Layer `client` (see docs/design.md)."""
