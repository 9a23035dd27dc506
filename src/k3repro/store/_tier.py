"""The tier of an artifact, worked out from evidence and never taken as an argument."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from k3repro.observed import SIMULATED

TWIN_MARK = "k3repro-twin"
REAL_EVIDENCE = frozenset({"build_info", "metrics", "startup_lines"})
# Weakest first. `config` is exact text, so it never weakens anything; `unverified` may be whatever it is.
WEAKEST_FIRST = ("unverified", "simulated", "published", "measured", "config")
TIERS = (*WEAKEST_FIRST, "derived")
# Each of these is another serve or another day: a later one never takes the place of an earlier one.
OBSERVED = frozenset({"measured", "unverified"})


def tier_of(facts: Mapping[str, Any]) -> str:
    """`simulated` with a twin mark anywhere in the facts; `measured` with evidence; else `unverified`.

    `facts["evidence"]` lists ``{"kind", "value"}``. Evidence of a real engine is a non-empty value of two or
    more of build_info, metrics, startup_lines: one alone is too easily answered by something else.
    """
    if any(TWIN_MARK in text.lower() for text in _texts(facts)):
        return "simulated"
    evidence = facts.get("evidence") or ()
    kinds = {item.get("kind") for item in evidence if isinstance(item, Mapping) and item.get("value")}
    return "measured" if len(kinds & REAL_EVIDENCE) >= 2 else "unverified"


def weakest(tiers: Iterable[str]) -> str:
    """The weakest of the given tiers: unverified, simulated, published, measured, config."""
    return min(tiers, key=WEAKEST_FIRST.index, default="unverified")


def basis_of(inputs: Iterable[str], observed: Iterable[str]) -> str:
    """The weakest basis of the inputs, and no more than `simulated` when a simulation was observed."""
    return weakest([*inputs, *({SIMULATED} & set(observed))])


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield str(key)
            yield from _texts(item)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for item in value:
            yield from _texts(item)
