"""Layer `pipeline` (see docs/design.md)."""
