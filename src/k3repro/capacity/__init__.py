"""Layer `capacity` (see docs/design.md)."""
