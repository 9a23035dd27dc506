"""What makes the import of somebody else's package quicker, and nothing else."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["no_iri_grammar"]


@contextmanager
def no_iri_grammar() -> Iterator[None]:
    """Import what imports jsonschema in half the time: it else builds a grammar for a format that no chart,
    no notebook and no schema of ours has.
    """
    hidden = "rfc3987_syntax" not in sys.modules
    if hidden:
        sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        if hidden:
            sys.modules.pop("rfc3987_syntax", None)
