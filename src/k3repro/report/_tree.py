"""Trees of a named query: rows in reading order with a `depth`, drawn as nested lists, folded below the first
node.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Unpack

from k3repro.errors import InputError
from k3repro.report._formats import machine_value
from k3repro.report._markup import attributes, canonical_json, escape
from k3repro.report._queries import ColumnSpec
from k3repro.report._rules import check_pairs
from k3repro.report._sources import Result, Sources, rows_digest
from k3repro.report._tables import (
    Shown,
    cell_content,
    citation_badges,
    drawn,
    merge_citations,
    pick_columns,
    row_citations,
    table_tiers,
)  # fmt: skip
from k3repro.report._values import cell_attributes

__all__ = ["further_nodes", "tree_cell", "tree_html"]

FIRST_NODES, WHOLE_UP_TO = 12, 20  # of a long tree; the page's data file holds the whole of it


def tree_html(sources: Sources, query: str, **shown: Unpack[Shown]) -> str:
    """`<ul class="k3-tree">`: what audit re-creates from the artifacts. Empty cells are left out.

    Raises:
        InputError, GateFailed: as for a table; a `depth` that is missing, does not start at zero or skips a
            level.
    """
    return drawn("tree", _tree, sources, query, shown)[0]


def further_nodes(sources: Sources, query: str, **shown: Unpack[Shown]) -> list[str]:
    """The whole list as one text where `tree_html` shows the first nodes alone; else nothing."""
    return drawn("tree", _tree, sources, query, shown)[1]


def _tree(
    sources: Sources,
    query: str,
    where: Mapping[str, Any],
    columns: Sequence[str] | None,
    base: str,
) -> tuple[str, list[str]]:
    place = f"tree {query}"
    result = sources.result(query)
    rows = result.select(where)
    if not rows:
        raise InputError(f"no row matches {where}", where=place, fix="Check `where`.")
    chosen = [name for name in pick_columns(result, columns) if name != "depth"]
    depths = _depths(rows, place)
    cited = [row_citations(sources, result, row, chosen, place) for row in rows]
    check_pairs(rows, chosen, [table_tiers(sources, cites) for cites in cited], place)
    whole = merge_citations([cite for cites in cited for cite in cites])
    pairs: dict[str, object] = {
        "class": "k3-tree",
        "data-query": query,
        "data-where": canonical_json(dict(where)) if where else "",
        "data-columns": " ".join(columns or ()),
        "data-rows": rows_digest(rows),
        "data-total": len(rows) if len(rows) > WHOLE_UP_TO else "",
        **cell_attributes(whole),
    }
    nodes = [_node(result, row, chosen, base) for row in rows]
    nodes[0] += f' <span class="k3-cell">{citation_badges(sources, cited[0])}</span>'
    shown = len(nodes) if len(nodes) <= WHOLE_UP_TO else FIRST_NODES
    html = f"<ul{attributes(pairs)}>{''.join(_nested(nodes[:shown], depths))}</ul>"
    return html, ["".join(_nested(nodes, depths))] if shown < len(nodes) else []


def _depths(rows: Sequence[Mapping[str, Any]], place: str) -> list[int]:
    depths = [row.get("depth") for row in rows]
    found: list[int] = []
    for depth in depths:
        deepest = found[-1] + 1 if found else 0
        if not isinstance(depth, int) or isinstance(depth, bool) or not 0 <= depth <= deepest:
            raise InputError(
                f"depth {depth!r} cannot follow {found[-1] if found else 'nothing'}",
                where=place,
                fix="Return an integer `depth` from 0 and rows in reading order.",
            )
        found.append(depth)
    return found


def _nested(nodes: Sequence[str], depths: Sequence[int]) -> Iterator[str]:
    """`<li>` of every node, the deeper ones in lists inside; what follows from a first node is folded."""
    for at, node in enumerate(nodes):
        depth, following = depths[at], depths[at + 1] if at + 1 < len(nodes) else 0
        yield f"<li>{node}"
        if following > depth:
            yield f"{'' if depth else '<details><summary>How it follows</summary>'}<ul>"
        else:
            yield "</li>" + "".join(_closing(level) for level in range(depth, following, -1))


def _closing(level: int) -> str:
    """What ends a list of nodes at a level: the outermost one stands in a fold."""
    return "</ul></details></li>" if level == 1 else "</ul></li>"


def _node(result: Result, row: Mapping[str, Any], columns: Sequence[str], base: str) -> str:
    cells = (tree_cell(result.query.column(name), row, base) for name in columns)
    return " ".join(cell for cell in cells if cell)


def tree_cell(spec: ColumnSpec, row: Mapping[str, Any], base: str) -> str:
    """One labelled cell in running text; empty for NULL. A number says its full value, for the card."""
    value = row[spec.name]
    if value is None or value == "":
        return ""
    label = f'<span class="k3-label">{escape(spec.label)}</span> ' if spec.label else ""
    unit = f" {escape(spec.unit)}" if spec.unit else ""
    content = cell_content(spec, row, base, str(row.get(spec.disputed) or "") if spec.disputed else "")
    numeric = isinstance(value, int | float) and not isinstance(value, bool)
    pairs: dict[str, object] = {
        "data-column": spec.name,
        "data-value": machine_value(value) if numeric else "",
        "data-unit": spec.unit if numeric else "",
        "tabindex": "0" if numeric else "",
    }
    return f'<span class="k3-cell"{attributes(pairs)}>{label}{content}{unit}</span>'
