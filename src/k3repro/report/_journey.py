"""A journey: steps in reading order, each an act, a stage and a caption, beside a drawing of the same rows.

The list is complete without scripts and in print; the page's script only says which step is shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from k3repro.errors import InputError
from k3repro.report._markup import attributes, canonical_json, escape
from k3repro.report._sources import Sources, rows_digest
from k3repro.report._tables import merge_citations, row_citations
from k3repro.report._tree import tree_cell
from k3repro.report._values import cell_attributes

__all__ = ["STEP_COLUMNS", "steps_html"]

STEP_COLUMNS = ("act", "stage", "caption")


def steps_html(
    sources: Sources, query: str, *, where: Mapping[str, Any] | None = None, base: str = ""
) -> str:
    """`<ol class="k3-steps">`: what audit re-creates; numbers of a step follow its caption, labelled.

    Raises:
        InputError: no row, or one without act, stage or caption. GateFailed: as for a table.
    """
    place = f"journey {query}"
    result = sources.result(query)
    rows = result.select(where)
    texts_missing = [name for row in rows for name in STEP_COLUMNS if not isinstance(row.get(name), str)]
    if not rows or texts_missing:
        raise InputError(
            f"no text in {texts_missing[0]!r}" if rows else f"no row matches {dict(where or {})}",
            where=place,
            fix="A step has the text columns act, stage and caption.",
        )
    shown = [name for name in result.visible() if name not in STEP_COLUMNS]
    cites = [row_citations(sources, result, row, shown or ["caption"], place) for row in rows]
    whole = merge_citations([cite for row in cites for cite in row])
    pairs: dict[str, object] = {
        "class": "k3-steps",
        "data-query": query,
        "data-where": canonical_json(dict(where)) if where else "",
        "data-rows": rows_digest(rows),
        **cell_attributes(whole),
    }
    items = (
        f"<li{attributes({'data-act': row['act'], 'data-stage': row['stage']})}>"
        f'<p class="k3-step"><span class="k3-act">{escape(row["act"])}</span> '
        f"<strong>{escape(row['stage'])}</strong></p><p>{escape(row['caption'])}</p>"
        f"<p>{' '.join(tree_cell(result.query.column(name), row, base) for name in shown)}</p></li>"
        for row in rows
    )
    return f"<ol{attributes(pairs)}>{''.join(items)}</ol>"
