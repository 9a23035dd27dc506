"""Switches of a figure: what a reader may turn without a number being made.

`filter:COLUMN` shows the rows of one value, `facet:COLUMN` sets a small chart per value side by side,
`log:x` and `log:y` make an axis logarithmic or linear. Rows stay the query's; the page's own script draws
them again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from k3repro.errors import InputError
from k3repro.report._queries import Query

__all__ = ["switches_of"]

KINDS = ("filter", "facet", "log")
_MOST_CHOICES = 12
_COMPOSED = ("facet", "hconcat", "vconcat", "concat", "repeat")


def switches_of(
    spec: Mapping[str, Any], query: Query, switches: Sequence[str], where: str
) -> list[dict[str, str]]:
    """The switches as `usermeta` holds them: kind, name and label, each checked against rows and encodings.

    Raises:
        InputError: an unknown kind, a column with one value or too many, a logarithm of a number that is not
            positive, small charts of a figure that is composed already.
    """
    rows = spec["datasets"]["rows"]
    made = []
    for text in switches:
        kind, _, name = str(text).partition(":")
        if kind not in KINDS:
            raise InputError(
                f"unknown switch {text!r}",
                where=where,
                fix="Write filter:COLUMN, facet:COLUMN, log:x or log:y.",
            )
        if kind == "log":
            label = _logarithmic(spec, rows, name, where)
        else:
            label = _choices(rows, query, name, where)
            if not label:
                continue
        if kind == "facet" and (composed := [part for part in _COMPOSED if part in spec]):
            raise InputError(f"small charts of a {composed[0]}", where=where, fix="Facet a single chart.")
        made.append({"kind": kind, "name": name, "label": label})
    return made


def _choices(rows: Sequence[Mapping[str, Any]], query: Query, name: str, where: str) -> str:
    values = {row.get(name) for row in rows}
    texts = {value for value in values if isinstance(value, str)}
    if len(texts) == 1 and not values - texts:
        return ""  # what there is to choose depends on the artifacts: one platform needs no switch
    if not 2 <= len(texts) <= _MOST_CHOICES or values - texts - {None}:
        raise InputError(
            f"{name!r} offers {len(texts)} texts to choose from",
            where=where,
            fix=f"Switch a column of the chart's rows that holds 2 to {_MOST_CHOICES} texts.",
        )
    return query.column(name).label


def _logarithmic(spec: Any, rows: Sequence[Mapping[str, Any]], channel: str, where: str) -> str:
    if channel not in {"x", "y"}:
        raise InputError(f"no axis is named {channel!r}", where=where, fix="Write log:x or log:y.")
    fields = {item["field"] for item in _channels(spec, channel) if item.get("type") == "quantitative"}
    ends = {item["field"] for item in _channels(spec, f"{channel}2") if "field" in item}
    fields |= ends
    if not ends and any(mark in {"bar", "area"} for mark in _marks(spec)):
        raise InputError(
            "bars and areas start at zero, which has no logarithm",
            where=where,
            fix="Use points or lines.",
        )
    values = [row.get(name) for name in sorted(fields) for row in rows]
    if not fields or any(isinstance(value, int | float) and value <= 0 for value in values):
        raise InputError(
            f"the {channel} axis cannot be logarithmic",
            where=where,
            fix="It needs quantitative columns, every value positive: filter in SQL.",
        )
    return f"logarithmic {channel} axis"


def _marks(node: Any) -> Iterator[str]:
    for item in node if isinstance(node, list) else []:
        yield from _marks(item)
    if isinstance(node, dict):
        mark = node.get("mark")
        yield str(mark.get("type") if isinstance(mark, dict) else mark)
        for key in ("layer", "spec", "hconcat", "vconcat", "concat"):
            yield from _marks(node.get(key))


def _channels(node: Any, channel: str) -> Iterator[dict[str, Any]]:
    """Every encoding of one channel, in layers and parts as well."""
    if isinstance(node, list):
        for item in node:
            yield from _channels(item, channel)
    elif isinstance(node, dict):
        found = node.get("encoding", {}).get(channel)
        if isinstance(found, dict):
            yield found
        for key, item in node.items():
            if key not in {"encoding", "datasets"}:
                yield from _channels(item, channel)
