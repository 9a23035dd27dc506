"""The data file of a page, `behind/NAME.js`: what its cards, long tables and long trees ask for.

One script of data a page, loaded on the first hover or press, so that it works from disk. The verifier makes
it again from the page and the artifacts, and compares the bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from k3repro.report._evidence import evidence_of
from k3repro.report._markup import script_json
from k3repro.report._sources import Sources

__all__ = ["behind_name", "behind_text", "queries_in", "result_seals"]

_ASKED = re.compile(r'data-query="([^"]+)"')


def behind_name(page: str) -> str:
    """Where the data of `claims/index.html` (or `.md`) stand in the site."""
    return f"behind/{page.rsplit('.', 1)[0]}.js"


def queries_in(html: str) -> set[str]:
    """The queries that a page's elements name."""
    return set(_ASKED.findall(html))


def behind_text(sources: Sources, base: str, queries: Iterable[str], rows: Mapping[str, list[str]]) -> str:
    """SQL by query, facts by artifact, further rows by the id of their table; nothing where no query is used.

    base: how the page reaches the site's root (`` or `../`).
    """
    names = sorted(queries)
    if not names:
        return ""
    seals = sorted({seal for name in names for seal in result_seals(sources, name)})
    data = {
        "queries": {name: _described(sources, name) for name in names},
        "artifacts": {seal: _facts(sources, seal) for seal in seals},
        "base": base,
        "rows": {key: rows[key] for key in sorted(rows)},
    }
    return f"window.k3Behind={script_json(data)};\n"


def _described(sources: Sources, name: str) -> dict[str, Any]:
    result = sources.result(name)
    labels = {column: result.query.column(column).label for column in result.visible()}
    return {"sql": result.query.sql, "title": result.query.title, "labels": labels}


def result_seals(sources: Sources, query: str) -> set[str]:
    """Every artifact that the rows of a query cite."""
    return set(sources.result(query).seals)


def _facts(sources: Sources, seal: str) -> dict[str, Any]:
    """What a hover card says about an artifact."""
    row = sources.artifacts[seal]
    keep = ("data", "name", "subject", "kind", "tier", "basis", "run_id", "clock", "producer")
    facts = {key: row[key] for key in keep if row.get(key)}
    evidence = evidence_of(seal, sources.artifacts, sources.vouched.get(seal, frozenset()))
    said = {"evidence": "; ".join(evidence)} if evidence else {}
    return {**facts, **said, "file": sources.files.get(seal, ("", 0))[0]}
