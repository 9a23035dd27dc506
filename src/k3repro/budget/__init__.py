"""Layer `budget` (see docs/design.md)."""
