"""Rows of a command as text: aligned columns for people, CSV, JSON or Markdown for programs.

A row is one line, whatever the width of the terminal: nothing wraps inside a name, and a pipe gets it whole.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click
from rich.console import Console

__all__ = ["FORMS", "format_option", "print_rows", "printer", "table_lines"]

FORMS = ("table", "csv", "json", "md")
Row = Mapping[str, Any]
_PIPE_COLUMNS = 10_000


def printer() -> Console:
    """Where rich prints: as wide as the terminal; in a pipe nothing is wrapped or cut."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else _PIPE_COLUMNS)


def format_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--format` of a command that prints rows."""
    text = "How rows are printed; --json is --format json."
    return click.option("--format", "form", type=click.Choice(FORMS), default="table", show_default=True,
                        help=text)(command)  # fmt: skip


def print_rows(rows: Sequence[Row], form: str = "table", *, empty: str = "no rows") -> None:
    """Print `rows` in one of FORMS; the columns are those of the first row."""
    if form == "json":
        click.echo(json.dumps(rows, indent=2, allow_nan=False, default=str))
    elif form == "csv":
        from k3repro.store import csv_text  # with it comes the database

        click.echo(csv_text(rows[0], (row.values() for row in rows)) if rows else "", nl=False)
    elif not rows:
        click.echo(empty)
    elif form == "md":
        click.echo("\n".join(_markdown(rows)))
    else:
        click.echo("\n".join(table_lines(rows)))


def table_lines(rows: Sequence[Row]) -> list[str]:
    """Aligned columns, numbers to the right, two spaces between; NULL where nothing is known."""
    names = list(rows[0])
    cells = [[_cell(row[name]) for name in names] for row in rows]
    right = [all(isinstance(row[name], (int, float, type(None))) for row in rows) for name in names]
    widths = [max(len(name), *(len(line[k]) for line in cells)) for k, name in enumerate(names)]
    return [
        "  ".join(
            text.rjust(width) if number else text.ljust(width)
            for text, width, number in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in [names, *cells]
    ]


def _markdown(rows: Sequence[Row]) -> list[str]:
    names = list(rows[0])
    lines = [names, ["---"] * len(names)]
    lines += [[_cell(row[name]).replace("|", r"\|") for name in names] for row in rows]
    return [f"| {' | '.join(line)} |" for line in lines]


def _cell(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, (list, tuple, dict)):
        return json.dumps(value, ensure_ascii=False, default=str)
    text = str(value)
    return text if text.isprintable() else text.encode("unicode_escape").decode()
