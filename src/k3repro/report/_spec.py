"""What a chart may hold: rows of its query, names, layout, and no number or text of its own."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import Any

from k3repro.errors import GateFailed, InputError

__all__ = ["MAX_ROWS", "bind_data", "refuse_nan", "spec_problems"]

MAX_ROWS = 5_000
ROWS = "rows"
_LARGEST = 10_000  # pixels, ticks, steps: beyond it a specification is an attack on whoever draws it

# Anything that fetches, invents or computes numbers belongs into the SQL, where audit can run it again.
_REFUSED = frozenset(
    [
        "url",
        "sequence",
        "graticule",
        "sphere",
        "calculate",
        "labelExpr",
        "expr",
        "aggregate",
        "joinaggregate",
        "window",
        "regression",
        "loess",
        "density",
        "quantile",
        "impute",
        "stack_",
        "bin",
        "timeUnit",
        "geoshape",
        "image",
        "href",
        "lookup",
        "signal",
        "signals",
    ]
)
_STRUCTURE = frozenset(
    ["field", "type", "$schema", "scheme", "interpolate", "shape", "font", "name", "resolve"]
)
_PLACED = frozenset(
    [
        "x",
        "y",
        "x2",
        "y2",
        "theta",
        "theta2",
        "radius",
        "radius2",
        "text",
        "tooltip",
        "xOffset",
        "yOffset",
        "xError",
        "yError",
        "size_",
    ]
)
_NUMBER_FORMAT = re.compile(r",?(?:\.\d)?~?[defgs%r]?")
_COLOUR = re.compile(r"#(?:[0-9a-fA-F]{3}){1,2}")


def refuse_nan(value: Any, where: str) -> None:
    """Refuse NaN and infinity anywhere in a specification, naming the chart.

    Raises:
        InputError: with the path inside the specification.
    """
    for path, leaf in _leaves(value, ""):
        if isinstance(leaf, float) and not math.isfinite(leaf):
            raise InputError(
                f"{path.lstrip('.')} is {leaf}", where=where, fix="Filter NULLs and NaN before the chart."
            )


def bind_data(spec: dict[str, Any], rows: list[dict[str, Any]], where: str) -> dict[str, Any]:
    """The specification with one named data set, proven equal to the rows of its query.

    Raises:
        GateFailed: data the query did not return. InputError: more rows than a page should carry.
    """
    if len(rows) > MAX_ROWS:
        raise InputError(
            f"{len(rows)} rows in a chart", where=where, fix=f"Aggregate in SQL to {MAX_ROWS} or fewer."
        )
    named = spec.pop("datasets", {})
    found: list[list[dict[str, Any]]] = []

    def swap(node: Any) -> Any:
        if isinstance(node, list):
            return [swap(item) for item in node]
        if not isinstance(node, dict):
            return node
        out = {key: swap(item) for key, item in node.items() if key != "data"}
        if "data" in node:
            data = node["data"] or {}
            found.append(
                named.get(data.get("name"), data.get("values", [])) if isinstance(data, dict) else []
            )
            out["data"] = {"name": ROWS}
        return out

    bound: dict[str, Any] = swap(spec)
    for data in found:
        if not _is_projection(data, rows):
            raise GateFailed(
                "the chart carries data its query did not return", where=where, fix="Plot the rows given."
            )
    columns = list(found[0][0]) if found and found[0] else list(rows[0]) if rows else []
    bound["datasets"] = {ROWS: [{name: row[name] for name in columns} for row in rows]}
    return bound


def _is_projection(data: Any, rows: list[dict[str, Any]]) -> bool:
    if not isinstance(data, list) or len(data) != len(rows):
        return False
    return all(
        isinstance(mine, dict) and all(name in row and row[name] == value for name, value in mine.items())
        for mine, row in zip(data, rows, strict=True)
    )


def spec_problems(spec: dict[str, Any], numbers: Callable[[str], list[str]]) -> Iterator[str]:
    """Every number or text in a specification that no query returned. `numbers` is the gate's grammar."""
    for path, leaf in _leaves(
        {key: item for key, item in spec.items() if key not in {"datasets", "usermeta"}}, ""
    ):
        keys = [key for key in path.split(".") if key and not key.isdigit()]
        yield from (f"{path.lstrip('.')}: {problem}" for problem in _leaf_problems(keys, leaf, numbers))


def _leaf_problems(keys: list[str], leaf: Any, numbers: Callable[[str], list[str]]) -> Iterator[str]:
    last = keys[-1] if keys else ""
    refused = _REFUSED.intersection(keys)
    if refused or (last == "type" and leaf in _REFUSED) or (last == "mark" and leaf in _REFUSED):
        yield f"{next(iter(sorted(refused)), leaf)} is not allowed in a chart, do it in SQL"
    elif "data" in keys and leaf != ROWS:
        yield "data that is not the query's"
    elif isinstance(leaf, bool) or leaf is None:
        return
    elif isinstance(leaf, int | float):
        if abs(leaf) > _LARGEST and "domain" not in keys:
            yield f"the oversized {leaf}"
        if (
            last == "datum"
            or (last == "value" and _PLACED.intersection(keys))
            or ("mark" in keys and last in _PLACED)
        ):
            yield f"the literal {leaf}"
    elif last in {"format"}:
        if not _NUMBER_FORMAT.fullmatch(leaf):
            yield f"the format {leaf!r}"
    elif last not in _STRUCTURE and not _COLOUR.fullmatch(leaf):
        yield from (f"{token!r} in {leaf!r}" for token in numbers(leaf))


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, f"{path}.{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _leaves(item, f"{path}.{index}")
    else:
        yield path, value
