"""A number on a page: query, row, column, and the element that carries them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from k3repro.errors import GateFailed, InputError
from k3repro.report._disputed import claim_against
from k3repro.report._formats import format_cell, machine_value, with_unit
from k3repro.report._markup import attributes, canonical_json, escape, sha256, slug
from k3repro.report._queries import ColumnSpec
from k3repro.report._rules import check_cell
from k3repro.report._sources import Citation, Sources

__all__ = ["badge", "cell_attributes", "relation_badge", "value_html", "value_id"]


def value_id(query: str, column: str, where: Mapping[str, Any] | None) -> str:
    """The permanent id of a value, from its key: it moves with the value, not with the page."""
    key = canonical_json([query, column, dict(where or {})])
    return f"v-{slug(query)}-{slug(column)}-{sha256(key)[:6]}"


def value_html(
    sources: Sources,
    query: str,
    column: str,
    *,
    where: Mapping[str, Any] | None = None,
    format: str | None = None,
    unit: str | None = None,
) -> str:
    """`<data>` for one cell of a named query.

    Raises:
        InputError: no such query or column, or a unit other than the query's own.
        GateFailed: not exactly one row, or a rule refuses the cell.
    """
    place = f"value {query}.{column}"
    result = sources.result(query)
    rows = result.select(where)
    if len(rows) != 1:
        raise GateFailed(
            f"{len(rows)} rows match {dict(where or {})}",
            where=place,
            fix="A value needs exactly one row: narrow `where`.",
        )
    spec = result.require(column)
    if unit is not None and spec.unit and unit != spec.unit:
        raise InputError(
            f"unit {unit!r}, but the query says {spec.unit!r}", where=place, fix="Convert in SQL."
        )
    row = rows[0]
    cited = sources.cite(row, spec, place)
    check_cell(spec, row, cited, place)
    chosen = format or spec.format
    text = with_unit(format_cell(row[column], chosen), spec.unit or unit)
    claim = claim_against(sources, spec, row, cited, place)
    mark = ' <span class="k3-disputed">contradicted</span>' if claim else ""
    pairs: dict[str, object] = {
        "class": "k3-value",
        "id": value_id(query, column, where),
        "value": machine_value(row[column]),
        "data-query": query,
        "data-column": column,
        "data-where": canonical_json(dict(where)) if where else "",
        "data-format": format or "",
        "data-unit": spec.unit or unit or "",
        "data-relation": row.get("relation") or "",
        "data-disputed": claim,
        **cell_attributes(cited),
        "tabindex": "0",
    }
    return f"<data{attributes(pairs)}>{escape(text)}{mark}</data>"


def cell_attributes(cited: Citation) -> dict[str, object]:
    """The provenance attributes that values, rows and cells share."""
    return {
        "data-artifacts": " ".join(cited.seals),
        "data-tier": cited.tier,
        "data-basis": cited.basis,
        "data-n": cited.n,
    }


def badge(tier: str, basis: str = "") -> str:
    """A tier as a badge: colour, shape and the word itself."""
    text = f"{tier} from {basis}" if basis else tier
    return f'<span class="k3-tier" data-tier="{escape(tier)}">{escape(text)}</span>'


def relation_badge(relation: str, query: str = "", where: Mapping[str, Any] | None = None) -> str:
    """A relation of a pair as a badge; in a sentence it names the rows it speaks of."""
    pairs: dict[str, object] = {
        "class": "k3-relation",
        "data-relation": relation,
        "data-query": query,
        "data-where": canonical_json(dict(where)) if where else "",
    }
    return f"<span{attributes(pairs)}>{escape(relation)}</span>"


def cell_text(spec: ColumnSpec, value: Any) -> str:
    """A table cell's text: its number without the unit, which stands in the header."""
    return format_cell(value, spec.format)
