"""Layer `bringup` (see docs/design.md)."""
