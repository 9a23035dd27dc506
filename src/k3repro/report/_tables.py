"""Tables of a named query: caption, units in headers, machine sort values, tier badges, relations.

A page holds what fits a screen: the first rows of a long table (the others stand in the page's data file, see
`_behind`), and the first columns of a wide one, the others behind a button.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypedDict, Unpack
from urllib.parse import quote

from k3repro.errors import InputError
from k3repro.report._disputed import claim_against
from k3repro.report._formats import MISSING, machine_value, with_unit
from k3repro.report._markup import attributes, canonical_json, escape, sha256, slug
from k3repro.report._queries import ColumnSpec
from k3repro.report._rules import check_cell, check_pairs
from k3repro.report._sources import Citation, Result, Sources, rows_digest
from k3repro.report._values import badge, cell_attributes, cell_text, relation_badge
from k3repro.units import format_decimal

__all__ = [
    "Shown",
    "block_id",
    "cell_content",
    "citation_badges",
    "drawn",
    "further_rows",
    "merge_citations",
    "pick_columns",
    "row_citations",
    "table_html",
    "table_tiers",
    "tier_badges",
]

MOST_COLUMNS = 7  # at once; "more columns" shows the others
_BADGE = re.compile(r'data-badge="([^"]+)"')
FIRST_ROWS, WHOLE_UP_TO = 15, 22  # a table of a few rows more than a screen is shown whole


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


class Shown(TypedDict, total=False):
    """What of a query is shown: rows equal to `where`, `columns`, and the way to the site's root (`base`)."""

    where: Mapping[str, Any] | None
    columns: Sequence[str] | None
    base: str


Maker = Callable[[Sources, str, Mapping[str, Any], Sequence[str] | None, str], tuple[str, list[str]]]


def drawn(kind: str, make: Maker, sources: Sources, query: str, shown: Shown) -> tuple[str, list[str]]:
    """What `make` gives for these rows, once: the element, and what it leaves to the page's data file."""
    where, columns, base = dict(shown.get("where") or {}), shown.get("columns"), shown.get("base", "")
    key = [kind, query, where, [*(columns or ())], base]
    made: tuple[str, list[str]] = sources.made(key, lambda: make(sources, query, where, columns, base))
    return made


def table_html(sources: Sources, query: str, **shown: Unpack[Shown]) -> str:
    """`<table>` with a slot `{caption}`: the part that audit re-creates from the artifacts.

    Raises:
        InputError, GateFailed: as for a value; a pair without relation.
    """
    return drawn("table", _table, sources, query, shown)[0]


def further_rows(sources: Sources, query: str, **shown: Unpack[Shown]) -> list[str]:
    """`<tr>` of every row that `table_html` leaves to the page's data file; none where all rows are shown."""
    return drawn("table", _table, sources, query, shown)[1]


def _table(
    sources: Sources,
    query: str,
    where: Mapping[str, Any],
    columns: Sequence[str] | None,
    base: str,
) -> tuple[str, list[str]]:
    place = f"table {query}"
    result = sources.result(query)
    rows = result.select(where)
    if not rows and not result.query.empty:
        raise InputError(f"no row matches {where}", where=place, fix="Check `where`.")
    chosen = pick_columns(result, columns)
    cited = [row_citations(sources, result, row, chosen, place) for row in rows]
    check_pairs(rows, chosen, [table_tiers(sources, row_cites) for row_cites in cited], place)
    marks = [citation_badges(sources, row_cites) for row_cites in cited]
    same = marks[0] if len(set(marks)) == 1 else ""
    folded = _folded(result, chosen, MOST_COLUMNS - (not same))
    wholes = [merge_citations(row_cites) for row_cites in cited]
    common = merge_citations(wholes) if wholes else None
    body = [
        _row(sources, result, row, chosen, folded, row_cites, whole, "" if whole == common else _cites(whole),
             "" if same else mark, base)
        for row, row_cites, whole, mark in zip(rows, cited, wholes, marks, strict=True)
    ]  # fmt: skip
    shown = len(body) if len(body) <= WHOLE_UP_TO else FIRST_ROWS
    pairs: dict[str, object] = {
        "class": "k3-grid",
        "data-query": query,
        "data-where": canonical_json(dict(where)) if where else "",
        "data-columns": " ".join(columns or ()),
        "data-rows": rows_digest(rows),
        "data-total": len(body) if shown < len(body) else "",
        "data-badges": _badges(body) if shown < len(body) else "",
    }
    head = _head(result, rows, chosen, folded, same)
    said = _cites(common) if common else ""
    text = (
        f"<table{attributes(pairs)}>\n{{caption}}<thead>{head}</thead>\n"
        f"<tbody{said}>\n{''.join(body[:shown])}</tbody></table>"
    )
    return text, body[shown:]


def _badges(body: Sequence[str]) -> str:
    """The badges of all rows, in the order in which they appear: what a reader may choose rows by."""
    return html.unescape("|".join(dict.fromkeys(_BADGE.findall("".join(body)))))


def _folded(result: Result, columns: Sequence[str], most: int) -> frozenset[str]:
    """Columns behind "more": those the query says, then those beyond the first few; a relation never is."""
    wanted = [name for name in columns if not result.query.column(name).more or name == "relation"]
    room = most - ("relation" in wanted)
    kept = [name for name in wanted if name != "relation"][:room]
    return frozenset(columns) - {*kept, "relation"}


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


def _head(
    result: Result,
    rows: Sequence[Mapping[str, Any]],
    columns: list[str],
    folded: frozenset[str],
    same: str,
) -> str:
    """Names of the columns; above them the tier once, where all rows share it."""
    heads = (
        _header(result.query.column(name), any(_is_number(row[name]) for row in rows), name in folded)
        for name in columns
    )
    width = attributes({"colspan": len(columns)})
    above = f'<tr class="k3-same"><td{width}>every row {same}</td></tr>' if same else ""
    tier = "" if same else '<th scope="col">tier</th>'
    return f"{above}<tr>{''.join(heads)}{tier}</tr>"


def _header(spec: ColumnSpec, numeric: bool, folded: bool) -> str:
    unit = f' <span class="k3-unit">({escape(spec.unit)})</span>' if spec.unit else ""
    pairs: dict[str, object] = {
        "class": _class(numeric or spec.kind == "file", folded),
        "data-column": spec.name,
        "title": spec.about,
    }
    return f'<th scope="col"{attributes(pairs)}>{escape(spec.label)}{unit}</th>'


def _class(numeric: bool, folded: bool) -> str:
    return " ".join(name for name, on in (("k3-number", numeric), ("k3-more", folded)) if on)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _row(
    sources: Sources,
    result: Result,
    row: Mapping[str, Any],
    columns: list[str],
    folded: frozenset[str],
    cites: list[Citation],
    whole: Citation,
    own: str,
    mark: str,
    base: str,
) -> str:
    cells = "".join(
        _cell(sources, result.query.column(name), row, cited, whole, name in folded, base)
        for name, cited in zip(columns, cites, strict=True)
    )
    return f"<tr{own}>{cells}{f'<td>{mark}</td>' if mark else ''}</tr>\n"


def citation_badges(sources: Sources, cites: Sequence[Citation]) -> str:
    """A badge for every tier that some citations hold."""
    return tier_badges(sources, [seal for cited in cites for seal in cited.seals])


def tier_badges(sources: Sources, seals: Iterable[str]) -> str:
    """A badge for every tier of some artifacts."""
    return " ".join(badge(tier, basis) for tier, basis in sorted({sources.tier_of(seal) for seal in seals}))


def merge_citations(cites: list[Citation]) -> Citation:
    """The commonest citation; a cell that differs from its row's, a row from its table's, carries its own."""
    counts = Counter(cites)
    return max(counts, key=lambda cited: (counts[cited], cited.seals))


def _cell(
    sources: Sources,
    spec: ColumnSpec,
    row: Mapping[str, Any],
    cited: Citation,
    whole: Citation,
    folded: bool,
    base: str,
) -> str:
    value = row[spec.name]
    if spec.name == "relation":
        return f"<td>{relation_badge(str(value)) if value else ''}</td>"
    if spec.kind == "file":
        return _file_cell(sources, str(value), folded, base)
    own = cell_attributes(cited) if cited != whole else {}
    numeric = _is_number(value)
    pairs: dict[str, object] = {
        "class": _class(numeric, folded),
        "data-value": machine_value(value) if numeric else "",
        **own,
    }
    claim = claim_against(sources, spec, row, cited, f"column {spec.name}")
    return f"<td{attributes(pairs)}>{cell_content(spec, row, base, claim)}</td>"


def cell_content(spec: ColumnSpec, row: Mapping[str, Any], base: str, claim: str) -> str:
    """What stands in a cell: text, code, digest, badge, folded JSON; inside a link where the row has one."""
    value = row[spec.name]
    path = row.get(spec.link) if spec.link else None
    inner = _content(spec, value)
    shown = f'<a href="{_address(base, path)}">{inner}</a>' if path and inner else inner
    mark = f' <a class="k3-disputed" href="{_address(base, claim)}">contradicted</a>' if claim else ""
    return shown + mark


def _address(base: str, path: Any) -> str:
    return escape(base + quote(str(path), safe="/#"))


def _content(spec: ColumnSpec, value: Any) -> str:
    text = escape(cell_text(spec, value))
    if spec.kind == "digest" and value:
        return f'<code title="{escape(value)}">{escape(str(value)[:12])}</code>'
    if spec.kind == "badge" and value:
        return f'<span class="k3-badge" data-badge="{escape(value)}">{text}</span>'
    if spec.kind == "json" and value:
        return f"<details><summary>show</summary><code>{text}</code></details>"
    return f"<code>{text}</code>" if spec.kind == "code" and value else text


def _file_cell(sources: Sources, seal: str, folded: bool, base: str) -> str:
    """A download link with its size, both taken from the file that ships with the site."""
    name, size = sources.files.get(seal, ("", 0))
    if not name:
        return f"<td{attributes({'class': _class(False, folded)})}>{MISSING}</td>"
    text = with_unit(format_decimal(size / 1000, 0), "KB")
    pairs: dict[str, object] = {"class": _class(True, folded), "data-value": str(size)}
    return f'<td{attributes(pairs)}><a href="{escape(base + name)}" download>{escape(text)}</a></td>'
