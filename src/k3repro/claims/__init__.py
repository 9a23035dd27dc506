"""Layer `claims` (see docs/design.md)."""
