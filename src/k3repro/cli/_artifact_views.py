"""What `k3repro artifacts show` and `sql` print on a terminal."""

from __future__ import annotations

import json
from typing import Any

from rich.table import Table as RichTable
from rich.text import Text

from k3repro.store import Artifact, Table

_FACTS = (
    "kind", "seal", "data", "run_id", "clock", "producer", "code", "parameters", "citation", "verdict",
    "serve", "environment",
)  # fmt: skip


def facts_table(artifact: Artifact, state: str) -> RichTable:
    """Where an artifact comes from, a line a fact."""
    grid = RichTable(box=None, show_header=False, pad_edge=False)
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    tier = artifact.tier if artifact.tier != "derived" else f"derived, weakest input {artifact.basis}"
    facts: dict[str, Any] = {"artifact": f"{artifact.name}@{artifact.subject}", "state": state, "tier": tier}
    facts |= {name: getattr(artifact, name) for name in _FACTS}
    facts |= {"inputs": ", ".join(seal[:12] for seal in artifact.inputs), "file": artifact.path}
    for name, value in facts.items():
        if value:
            is_json = isinstance(value, dict)
            text = json.dumps(value, sort_keys=True, ensure_ascii=False) if is_json else str(value)
            grid.add_row(name, Text(text))
    return grid


def columns_table(table: Table) -> RichTable:
    """The declared columns of a payload table."""
    grid = RichTable(box=None, pad_edge=False, header_style="dim")
    for heading in ("column", "type", "unit", "meaning"):
        grid.add_column(heading, overflow="fold")
    for column in table.columns:
        grid.add_row(column.name, column.type, column.unit, Text(column.doc))
    return grid


def rows_table(rows: list[dict[str, Any]]) -> RichTable:
    """Rows as a table for the terminal; NULL is shown as such, long text is cut."""
    grid = RichTable(box=None, pad_edge=False, header_style="dim")
    for name, value in rows[0].items():
        grid.add_column(name, justify="right" if isinstance(value, (int, float)) else "left")
    for row in rows:
        grid.add_row(*(Text("NULL", "dim") if v is None else Text(_cut(str(v))) for v in row.values()))
    return grid


def _cut(text: str, length: int = 60) -> str:
    text = text.encode("unicode_escape").decode() if not text.isprintable() else text
    return text if len(text) <= length else text[: length - 1] + "…"
