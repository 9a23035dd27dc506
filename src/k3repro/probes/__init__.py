"""Layer `probes` (see docs/design.md)."""
