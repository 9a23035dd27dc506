"""Names that engines read, and the nearest one to a name nobody knows."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable
from functools import cache
from importlib.resources import files


@cache
def _names() -> dict[str, str]:
    return tomllib.loads(files("k3repro.bringup").joinpath("names.toml").read_text("utf-8"))


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
