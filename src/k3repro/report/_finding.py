"""What a check found: the store's own kind of finding, so that one audit prints one list."""

from __future__ import annotations

from k3repro.store import Finding

__all__ = ["Finding", "found"]


def found(where: str, what: str, code: str, fix: str = "") -> Finding:
    """A finding of the report: place first, as it is written where checks run."""
    return Finding(code, where, what, fix)
