"""`k3repro audit levels`: a published table of rates and latencies, read for what it contradicts."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from k3repro.cli import emit
from k3repro.cli.options import json_option
from k3repro.publications import read_publication
from k3repro.studies.node.reading import finding_row, read_transcription, step_rows


@click.command("levels")
@click.argument("table", type=click.Path(path_type=Path))
@click.option(
    "--figures", type=click.Path(path_type=Path), metavar="FILE",
    help="Transcription of the document that quotes the table, with the bounds it states.",
)  # fmt: skip
@click.option("--steps", "everything", is_flag=True, help="Print the arithmetic of every finding.")
@json_option
def levels_command(table: Path, figures: Path | None, everything: bool, as_json: bool) -> None:
    """Read TABLE, a transcription with the tables `series` and `levels`: how many requests were in flight,
    how long they were, what each rate needs, and what contradicts what. Exit 1: findings.

    \b
    k3repro audit levels artifacts/publications/node/mi325x-cookbook.toml
    k3repro audit levels levels.toml --steps
    k3repro audit levels levels.toml --figures summary.toml --json
    """
    read, found = read_transcription(
        read_publication(table), read_publication(figures) if figures else None
    )  # fmt: skip
    if as_json:
        emit({"findings": [finding_row(item) | {"steps": step_rows(item)} for item in found]})
    else:
        for item in found:
            for line in _lines(finding_row(item), step_rows(item) if everything else []):
                click.echo(line)
        kinds = len({item.kind for item in found})
        click.echo(f"{len(read)} ladders, {len(found)} findings of {kinds} kinds")
    sys.exit(1 if found else 0)


def _lines(row: dict[str, Any], steps: list[dict[str, Any]]) -> Iterator[str]:
    level = "" if row["concurrency"] is None else f" at {row['concurrency']:,}"
    yield f"{row['kind']}: {row['series']}{level}: {row['what']}"
    weak = "" if row["survives"] else "; not with every tolerance doubled"
    yield f"    {_span(row, 'value')} against {_span(row, 'limit')} {row['unit']}{weak}"
    yield f"    assuming: {row['assuming']}"
    for step in steps:
        value = f"{_span(step, 'value')} {step['unit']}".removesuffix(" 1")
        yield f"    {step['step']}. {step['what']} = {value} ({step['formula']})"


def _span(row: dict[str, Any], name: str) -> str:
    low, high = (_number(row[f"{name}_{end}"]) for end in ("low", "high"))
    return low if low == high else f"[{low}, {high}]"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
