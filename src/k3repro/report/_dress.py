"""What every chart gets alike: one colour a meaning, tooltips with labels, units, formats of its query.

A figure's own file says what is drawn; a colour scale or a tooltip that it sets itself stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from k3repro.report._queries import ColumnSpec, Query

__all__ = ["COLOURS", "DARK", "dress", "palette_css"]

# The same colour for the same thing on every page: platforms, tiers and their sources, verdicts, phases.
COLOURS = {
    "MI325X": "#0b6e99",
    "MI300X": "#c2570c",
    "H200": "#5b7f2b",
    "measured": "#1b6e3c",
    "published": "#0b5f87",
    "printed": "#0b5f87",
    "simulated": "#8a4fa0",
    "twin": "#8a4fa0",
    "derived": "#8a5a00",
    "supported": "#1b6e3c",
    "repeats": "#45736f",
    "contradicted": "#b23a48",
    "undecidable": "#8a5a00",
    "unbacked": "#7b8794",
    # Phases of a request.
    "queue": "#7b8794",
    "prefill": "#45736f",
    "Prefill": "#45736f",
    "hold": "#9aa5b1",
    "transfer": "#b23a48",
    "Transfer": "#b23a48",
    "decode": "#9a6b00",
    "Decode": "#9a6b00",
}
# Every colour of the theme and of the table above, and what stands for it on a dark page.
DARK = {
    "#0b6e99": "#6cc0e6",
    "#c2570c": "#f2a25c",
    "#5b7f2b": "#a8cf6f",
    "#8a4fa0": "#cfa2e0",
    "#9a6b00": "#e3c35f",
    "#b23a48": "#f0949f",
    "#45736f": "#8fc7c4",
    "#1b6e3c": "#7cc894",
    "#0b5f87": "#84c7ea",
    "#8a5a00": "#e3b566",
    "#7b8794": "#9aa5b1",
    "#52606d": "#a9b4bf",
    "#37424d": "#d3dae0",
    "#e4e7eb": "#323c46",
    "#9aa5b1": "#5c6975",
    "#ffffff": "#14191e",
}
_LEVEL = re.compile(r"\s*\((?:one-sided, )?\d+ %\)")
_FIXED = re.compile(r",?\.(\d+)([fe%])")


def dress(spec: dict[str, Any], query: Query, rows: Sequence[Mapping[str, Any]]) -> None:
    """Complete colours and tooltips of every mark of a specification, in place."""
    for node in _encodings(spec):
        for channel in ("color", "fill", "stroke", "shape", "strokeDash"):
            _meaning(node.get(channel), rows, coloured=channel in {"color", "fill", "stroke"})
        given = node.get("tooltip")
        if given is None:
            node["tooltip"] = [
                _tip({"field": name, "type": kind}, query, rows) for name, kind in _fields(node)
            ]
        elif isinstance(given, list):
            node["tooltip"] = [_tip(item, query, rows) for item in given]
        elif isinstance(given, dict) and "field" in given:
            node["tooltip"] = _tip(given, query, rows)


def _encodings(node: Any) -> Iterator[dict[str, Any]]:
    """The encoding of every mark; a layer without one of its own draws what its parent encodes."""
    if isinstance(node, list):
        for item in node:
            yield from _encodings(item)
    elif isinstance(node, dict):
        if "mark" in node and isinstance(node.get("encoding"), dict):
            yield node["encoding"]
        for key in ("layer", "spec", "hconcat", "vconcat", "concat"):
            yield from _encodings(node.get(key))


def _meaning(channel: Any, rows: Sequence[Mapping[str, Any]], *, coloured: bool) -> None:
    """Known values get their colours; shapes and dashes the same order, or they would get a legend apart."""
    if (
        not isinstance(channel, dict)
        or channel.get("type") not in {"nominal", "ordinal"}
        or channel.get("scale")
    ):
        return
    values = {row.get(str(channel.get("field"))) for row in rows} - {None}
    known = [name for name in COLOURS if name in values]
    if known and len(known) == len(values):
        colours = {"range": [COLOURS[name] for name in known]} if coloured else {}
        channel["scale"] = {"domain": known, **colours}


def _fields(encoding: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Field and type of what a mark encodes, each once, in order."""
    found = {
        item["field"]: str(item.get("type", "quantitative"))
        for channel in encoding.values()
        for item in (channel if isinstance(channel, list) else [channel])
        if isinstance(item, dict) and isinstance(item.get("field"), str)
    }
    return list(found.items())


def _tip(item: Mapping[str, Any], query: Query, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    tip = dict(item)
    column = query.column(str(item.get("field", "")))
    label = _LEVEL.sub("", column.label)
    tip.setdefault("title", f"{label} ({column.unit})" if column.unit else label)
    if tip.get("type") == "quantitative":
        tip.setdefault("format", _format(column, rows))
    return tip


def _format(column: ColumnSpec, rows: Sequence[Mapping[str, Any]]) -> str:
    """The column's format in the language of charts."""
    if match := _FIXED.fullmatch(column.format or ""):
        return f"{'' if match.group(2) == '%' else ','}.{match.group(1)[:1]}{match.group(2)}"
    whole = column.format in {"d", "year"} or not any(isinstance(row.get(column.name), float) for row in rows)
    return ",d" if whole and column.format != "year" else ".0f" if column.format == "year" else ",.3~r"


def palette_css() -> str:
    """Rules that give static drawings their colours on a dark page; paper stays light."""
    dark = '[data-md-color-scheme="slate"] .k3-static svg'
    rules = (
        f'  {dark} [{part}="{light}"] {{ {part}: {shown}; }}'
        for light, shown in DARK.items()
        for part in ("fill", "stroke")
    )
    return "@media screen {\n" + "\n".join(rules) + "\n}\n"
