"""Studies: what knows one publication. Nothing of the engine imports from here (docs/new-study.md)."""
