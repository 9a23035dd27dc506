"""Layer `serve` (see docs/design.md)."""
