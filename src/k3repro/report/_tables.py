"""Tables of a named query: caption, units in headers, machine sort values, tier badges, relations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from k3repro.errors import InputError
from k3repro.report._formats import MISSING, machine_value, with_unit
from k3repro.report._markup import attributes, canonical_json, escape, sha256, slug
from k3repro.report._queries import ColumnSpec
from k3repro.report._rules import check_cell, check_pairs
from k3repro.report._sources import Citation, Result, Sources, rows_digest
from k3repro.report._values import badge, cell_attributes, cell_text, relation_badge
from k3repro.units import format_decimal

__all__ = [
    "block_id",
    "cell_content",
    "citation_badges",
    "merge_citations",
    "pick_columns",
    "row_citations",
    "table_html",
    "table_tiers",
]


def block_id(kind: str, query: str, where: Mapping[str, Any] | None, extra: object = None) -> str:
    """The permanent id of a table or figure, from its key."""
    return f"{kind}-{slug(query)}-{sha256(canonical_json([query, dict(where or {}), extra]))[:6]}"


def pick_columns(result: Result, columns: Sequence[str] | None) -> list[str]:
    """The columns to show: those named, or every visible one.

    Raises:
        InputError: a named column does not exist.
    """
    chosen = list(columns) if columns else result.visible()
    for name in chosen:
        result.require(name)
    return chosen


def table_html(
    sources: Sources,
    query: str,
    *,
    where: Mapping[str, Any] | None = None,
    columns: Sequence[str] | None = None,
    base: str = "",
) -> str:
    """`<table>` with a slot `{caption}`: the part that audit re-creates from the artifacts.

    base: how the page reaches the site's root (`` or `../`).

    Raises:
        InputError, GateFailed: as for a value; a pair without relation.
    """
    key = ["table", query, dict(where or {}), list(columns or ()), base]
    text: str = sources.made(key, lambda: _table(sources, query, where, columns, base))
    return text


def _table(
    sources: Sources,
    query: str,
    where: Mapping[str, Any] | None,
    columns: Sequence[str] | None,
    base: str,
) -> str:
    place = f"table {query}"
    result = sources.result(query)
    rows = result.select(where)
    if not rows and not result.query.empty:
        raise InputError(f"no row matches {dict(where or {})}", where=place, fix="Check `where`.")
    chosen = pick_columns(result, columns)
    cited = [row_citations(sources, result, row, chosen, place) for row in rows]
    check_pairs(rows, chosen, [table_tiers(sources, row_cites) for row_cites in cited], place)
    pairs: dict[str, object] = {
        "class": "k3-grid",
        "data-query": query,
        "data-where": canonical_json(dict(where)) if where else "",
        "data-columns": " ".join(columns or ()),
        "data-rows": rows_digest(rows),
    }
    head = _head(result, rows, chosen)
    wholes = [merge_citations(row_cites) for row_cites in cited]
    common = merge_citations(wholes) if wholes else None
    body = "".join(
        _row(sources, result, row, chosen, row_cites, whole, "" if whole == common else _cites(whole), base)
        for row, row_cites, whole in zip(rows, cited, wholes, strict=True)
    )
    said = _cites(common) if common else ""
    return (
        f"<table{attributes(pairs)}>\n{{caption}}<thead>{head}</thead>\n<tbody{said}>\n{body}</tbody></table>"
    )


def _cites(cited: Citation) -> str:
    return attributes(cell_attributes(cited))


def row_citations(
    sources: Sources, result: Result, row: Mapping[str, Any], columns: list[str], place: str
) -> list[Citation]:
    cites = []
    for name in columns:
        spec = result.query.column(name)
        cites.append(sources.cite(row, spec if row.get(spec.seal) else result.query.column("seal"), place))
        check_cell(spec, row, cites[-1], f"{place}.{name}")
    return cites


def table_tiers(sources: Sources, cites: list[Citation]) -> set[str]:
    return {str(sources.artifacts[seal]["tier"]) for cited in cites for seal in cited.seals}


def _head(result: Result, rows: Sequence[Mapping[str, Any]], columns: list[str]) -> str:
    heads = (
        _header(result.query.column(name), any(_is_number(row[name]) for row in rows)) for name in columns
    )
    return f'<tr>{"".join(heads)}<th scope="col">tier</th></tr>'


def _header(spec: ColumnSpec, numeric: bool) -> str:
    unit = f' <span class="k3-unit">({escape(spec.unit)})</span>' if spec.unit else ""
    right = numeric or spec.kind == "file"
    pairs: dict[str, object] = {
        "class": "k3-number" if right else "",
        "data-column": spec.name,
        "title": spec.about,
    }
    return f'<th scope="col"{attributes(pairs)}>{escape(spec.label)}{unit}</th>'


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _row(
    sources: Sources,
    result: Result,
    row: Mapping[str, Any],
    columns: list[str],
    cites: list[Citation],
    whole: Citation,
    own: str,
    base: str,
) -> str:
    cells = "".join(
        _cell(sources, result.query.column(name), row, cited, whole, base)
        for name, cited in zip(columns, cites, strict=True)
    )
    return f"<tr{own}>{cells}<td>{citation_badges(sources, cites)}</td></tr>\n"


def citation_badges(sources: Sources, cites: Sequence[Citation]) -> str:
    """A badge for every tier that some citations hold."""
    tiers = sorted({sources.tier_of(seal) for cited in cites for seal in cited.seals})
    return " ".join(badge(tier, basis) for tier, basis in tiers)


def merge_citations(cites: list[Citation]) -> Citation:
    """The commonest citation; a cell that differs from its row's, a row from its table's, carries its own."""
    counts = Counter(cites)
    return max(counts, key=lambda cited: (counts[cited], cited.seals))


def _cell(
    sources: Sources, spec: ColumnSpec, row: Mapping[str, Any], cited: Citation, whole: Citation, base: str
) -> str:
    value = row[spec.name]
    if spec.name == "relation":
        return f"<td>{relation_badge(str(value)) if value else ''}</td>"
    if spec.kind == "file":
        return _file_cell(sources, str(value), base)
    own = cell_attributes(cited) if cited != whole else {}
    numeric = _is_number(value)
    pairs: dict[str, object] = {
        "class": "k3-number" if numeric else "",
        "data-value": machine_value(value) if numeric else "",
        **own,
    }
    return f"<td{attributes(pairs)}>{cell_content(spec, row, base)}</td>"


def cell_content(spec: ColumnSpec, row: Mapping[str, Any], base: str) -> str:
    """What stands in a cell: text, code, digest, badge, folded JSON; inside a link where the row has one."""
    value = row[spec.name]
    path = row.get(spec.link) if spec.link else None
    inner = _content(spec, value)
    return f'<a href="{escape(base + quote(str(path), safe="/#"))}">{inner}</a>' if path and inner else inner


def _content(spec: ColumnSpec, value: Any) -> str:
    text = escape(cell_text(spec, value))
    if spec.kind == "digest" and value:
        return f'<code title="{escape(value)}">{escape(str(value)[:12])}</code>'
    if spec.kind == "badge" and value:
        return f'<span class="k3-badge" data-badge="{escape(value)}">{text}</span>'
    if spec.kind == "json" and value:
        return f"<details><summary>show</summary><code>{text}</code></details>"
    return f"<code>{text}</code>" if spec.kind == "code" and value else text


def _file_cell(sources: Sources, seal: str, base: str) -> str:
    """A download link with its size, both taken from the file that ships with the site."""
    name, size = sources.files.get(seal, ("", 0))
    if not name:
        return f"<td>{MISSING}</td>"
    text = with_unit(format_decimal(size / 1000, 0), "KB")
    pairs: dict[str, object] = {"class": "k3-number", "data-value": str(size)}
    return f'<td{attributes(pairs)}><a href="{escape(base + name)}" download>{escape(text)}</a></td>'
