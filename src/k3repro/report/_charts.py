"""What a chart may not do to its query's rows: leave some out, turn an axis round, name another column."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from k3repro.report._queries import Query

__all__ = ["chart_problems"]

_TURNED = frozenset({"reverse", "clamp", "invert", "domainMax", "domainMin", "domainMid", "domainRaw"})
_POSITIONS = frozenset({"x", "y", "x2", "y2", "theta", "radius", "xOffset", "yOffset"})
_CLAIMS = re.compile(r"\b(?:measured|hardware|real|confirmed|validated|verified)\b", re.IGNORECASE)
_PER = re.compile(r"\bper[ -](?:GPU|node|rank|user|request)s?\b|/GPU\b", re.IGNORECASE)
_UNIT = re.compile(r"\(([^()]+)\)\s*$|,\s*([^,()]+)\s*$")
_SAME_KIND = ({"s", "ms", "µs", "ns", "min", "h"}, {"B", "KB", "MB", "GB", "TB", "KiB", "MiB", "GiB", "TiB"})
Row = Mapping[str, Any]


def chart_problems(
    spec: Mapping[str, Any], query: Query, rows: Sequence[Row], tiers: set[str]
) -> Iterator[str]:
    """Findings about a specification over `rows`; `tiers` are those of the artifacts it cites."""
    yield from _rows_left_out(spec, rows)
    encodings = list(_encodings(spec))
    drawn = {(channel, str(item.get("field"))) for channel, item in encodings}
    for channel, item in encodings:
        yield from _scale(channel, item, rows)
        yield from _title(channel, item, query, rows, drawn)
    for text in _texts(spec):
        said = _CLAIMS.search(text)
        if said and "measured" not in tiers:
            yield f"{said.group()!r} in {text!r}, beside nothing measured"


def _rows_left_out(spec: Mapping[str, Any], rows: Sequence[Row]) -> Iterator[str]:
    """Every row must be in some layer: filters sort rows into layers, they leave none out."""
    if "transform" in spec:
        yield "a filter over all of its layers"
    layers = [layer for node in _nodes(spec) if node is not spec for layer in [node] if "mark" in node]
    filters = [_filter(layer) for layer in layers] or [None]
    if None in filters:
        return
    for row in rows:
        if not any(f and row.get(f[0]) == f[1] for f in filters):
            yield f"a filter leaves out rows of its query: {dict(row)}"[:160]
            return


def _filter(layer: Mapping[str, Any]) -> tuple[str, Any] | None:
    """Field and value that a layer shows; None: all rows."""
    for step in layer.get("transform", ()):
        condition = step.get("filter") if isinstance(step, dict) else None
        if isinstance(condition, dict) and set(condition) == {"field", "equal"}:
            return str(condition["field"]), condition["equal"]
        return "", None
    return None


def _nodes(node: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(node, dict):
        yield node
        for key in ("layer", "spec", "hconcat", "vconcat", "concat"):
            yield from _nodes(node.get(key))
    elif isinstance(node, list):
        for item in node:
            yield from _nodes(item)


def _encodings(spec: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for node in _nodes(spec):
        for channel, item in (node.get("encoding") or {}).items():
            if isinstance(item, dict) and "field" in item:
                yield channel, item


def _scale(channel: str, item: Mapping[str, Any], rows: Sequence[Row]) -> Iterator[str]:
    scale = item.get("scale") or {}
    turned = _TURNED & set(scale)
    if channel in _POSITIONS and (
        turned or (item.get("sort") == "descending" and item.get("type") == "quantitative")
    ):
        yield f"axis {channel} is turned round or cut"
    domain = scale.get("domain")
    if not isinstance(domain, list) or item.get("type") != "quantitative":
        return
    numbers = [row[item["field"]] for row in rows if isinstance(row.get(item["field"]), int | float)]
    ends = [end for end in domain if isinstance(end, int | float)]
    if ends != sorted(ends) or (
        numbers and (len(ends) < 2 or min(numbers) < ends[0] or max(numbers) > ends[-1])
    ):
        yield f"axis {channel} does not hold all of {item['field']}"


def _title(
    channel: str, item: Mapping[str, Any], query: Query, rows: Sequence[Row], drawn: set[tuple[str, str]]
) -> Iterator[str]:
    title = item.get("title") or (item.get("axis") or {}).get("title")
    if not isinstance(title, str) or channel not in _POSITIONS:
        return
    own = query.column(str(item["field"]))
    match = _UNIT.search(title)
    unit = (match.group(1) or match.group(2)).strip() if match else ""
    if any(unit in kind and own.unit in kind and unit != own.unit for kind in _SAME_KIND):
        yield f"the title {title!r} of a column in {own.unit}"
    if _PER.search(title) and not _PER.search(f"{own.label} {own.about} /{own.unit}"):
        yield f"{_PER.search(title).group()!r} in the title of {own.name}"  # type: ignore[union-attr]
    said = _words(title)
    if _words(own.label) <= said or not rows:
        return
    numeric = [name for name, value in rows[0].items() if isinstance(value, int | float)]
    for name in numeric:
        other = query.column(name)
        label = _words(other.label)
        named = name != own.name and other.unit == own.unit and bool(label) and label <= said
        if named and (channel, name) not in drawn:
            yield f"the title {title!r} names column {name}, and {own.name} is drawn"


def _words(text: str) -> set[str]:
    return set(re.findall(r"[a-z0-9]+", text.lower()))


def _texts(node: Any, key: str = "") -> Iterator[str]:
    if isinstance(node, dict):
        for name, item in node.items():
            if name not in ("datasets", "usermeta", "description"):
                yield from _texts(item, name)
    elif isinstance(node, list):
        for item in node:
            yield from _texts(item, key)
    elif isinstance(node, str) and key in ("title", "text", "subtitle", "name"):
        yield node
