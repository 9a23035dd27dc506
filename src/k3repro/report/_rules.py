"""What may be said with how much evidence: statistics by sample size, and relations of pairs.

The numbers of the rules live in `units.stats`; here they meet rows (docs/contracts.md, Report).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from k3repro.errors import GateFailed
from k3repro.relation import CIRCULAR, RELATIONS
from k3repro.report._queries import ColumnSpec
from k3repro.report._sources import Citation
from k3repro.units import highest_quantile, quantile_supported

__all__ = ["CIRCULAR", "FORBIDDEN_WORDS", "RELATIONS", "check_cell", "check_pairs"]

FORBIDDEN_WORDS = re.compile(
    r"\b(?:reproduc(?:e|es|ed|ing|tion)|validat(?:e|es|ed|ing|ion)|confirm(?:s|ed|ing|ation)?"
    r"|agree(?:s|d|ing|ment)?)\b",
    re.IGNORECASE,
)
_SERVES_FOR_INTERVAL = 3
_SERVES_FOR_ORDER = 2


def check_cell(spec: ColumnSpec, row: Mapping[str, Any], cited: Citation, where: str) -> None:
    """Refuse a cell that its row does not support.

    Raises:
        GateFailed: a quantile beyond its n, a difference beside a circular pair, an interval over too few
            serves, an order of platforms from one serve a side.
    """
    if row.get(spec.name) is None:
        return
    _check_relation(spec, row, where)
    if cited.tier != "published":
        _check_statistic(spec, row, where)
        _check_serves(spec, row, where)


def _check_relation(spec: ColumnSpec, row: Mapping[str, Any], where: str) -> None:
    relation = row.get("relation")
    if relation is not None and relation not in RELATIONS:
        raise GateFailed(f"unknown relation {relation!r}", where=where, fix=f"One of {', '.join(RELATIONS)}.")
    if spec.difference and relation in CIRCULAR:
        raise GateFailed(
            f"{spec.name} is a difference beside an {relation} pair",
            where=where,
            fix="Return NULL there: a fit cannot be checked against the data it was made from.",
        )


def _check_statistic(spec: ColumnSpec, row: Mapping[str, Any], where: str) -> None:
    if not spec.statistic:
        return
    q = 0.5 if spec.statistic == "median" else float(f"0.{spec.statistic[1:]}")
    n = row.get(spec.n or "n", row.get("n_requests"))
    if not isinstance(n, int) or isinstance(n, bool):
        raise GateFailed(
            f"{spec.name} is a {spec.statistic} without a sample size",
            where=where,
            fix=f"Return its n and name the column: -- column {spec.name}: {{n = ...}}",
        )
    if not quantile_supported(q, n):
        best = highest_quantile(n)
        instead = f"use p{best * 100:g}" if best else "show the sorted observations"
        raise GateFailed(
            f"{spec.name}: {n} observations do not support a {spec.statistic}", where=where, fix=f"{instead}."
        )


def _check_serves(spec: ColumnSpec, row: Mapping[str, Any], where: str) -> None:
    serves = row.get("n_serves")
    if spec.interval == "serves" and not (isinstance(serves, int) and serves >= _SERVES_FOR_INTERVAL):
        raise GateFailed(
            f"{spec.name} is an interval over {serves or 'no stated'} serves",
            where=where,
            fix="Three serves make an interval; below that say: within one serve.",
        )
    if spec.compares == "platforms" and not (isinstance(serves, int) and serves >= _SERVES_FOR_ORDER):
        raise GateFailed(
            f"{spec.name} orders platforms from {serves or 'no stated'} serves a side",
            where=where,
            fix="Return n_serves (the smaller side), two or more, or show the sides without ordering them.",
        )


def check_pairs(rows: list[dict[str, Any]], columns: list[str], tiers: list[set[str]], where: str) -> None:
    """Rows that set tiers side by side must show how the two are related.

    Raises:
        GateFailed: no visible `relation` column, or none in a row that needs it.
    """
    pairs = [row for row, row_tiers in zip(rows, tiers, strict=True) if is_pair(row_tiers)]
    if not pairs:
        return
    if "relation" not in columns:
        raise GateFailed(
            "published and other numbers stand side by side without their relation",
            where=where,
            fix="Return a `relation` column (" + ", ".join(RELATIONS) + ") and show it.",
        )
    if any(row.get("relation") is None for row in pairs):
        raise GateFailed(
            "a pair has no relation", where=where, fix="Set `relation` in rows that cite two tiers."
        )


def is_pair(tiers: set[str]) -> bool:
    """Whether a set of tiers puts a published or measured number beside a predicted or simulated one."""
    return bool(tiers & {"published", "measured"}) and bool(tiers & {"simulated", "derived", "unverified"})
