"""Layer `twin` (see docs/design.md)."""
