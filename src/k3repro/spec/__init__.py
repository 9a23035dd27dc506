"""Layer `spec` (see docs/design.md)."""
