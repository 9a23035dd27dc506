"""Layer `report` (see docs/design.md)."""
