"""Names that engines read, and the nearest one to a name nobody knows."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from functools import cache

from k3repro.toml import shipped_toml


@cache
def _names() -> dict[str, str]:
    return shipped_toml("k3repro.bringup", "names.toml")


def engine_of_names() -> str:
    """The engine whose names these are."""
    return _names()["engine"]


@cache
def flags_of_engine() -> frozenset[str]:
    """Options of `vllm serve`, without their --no- forms."""
    return frozenset(_names()["flags"].split())


@cache
def variables_of_engine() -> frozenset[str]:
    """Environment variables of the engine and the libraries under it."""
    return frozenset(_names()["variables"].split())


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name that this one may stand for; empty when none is near."""
    return next(iter(difflib.get_close_matches(name, list(known), n=1, cutoff=0.9)), "")
