"""Layer `mxfp4` (see docs/design.md)."""
