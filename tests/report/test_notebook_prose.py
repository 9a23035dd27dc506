"""Notebooks before anything runs: no number in prose, and which run a probe's notebook shows."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest

from k3repro.report._allowlist import load_grammar

ROOT = Path(__file__).parents[2]
GRAMMAR = load_grammar(ROOT / "site")
CODE = re.compile(r"```.*?```|`[^`]*`", re.DOTALL)
LINK = re.compile(r"\]\([^)]*\)")


def numbers(text: str) -> list[str]:
    return GRAMMAR.numbers(LINK.sub("]", CODE.sub(" ", text)))


@pytest.mark.parametrize(
    "path", sorted((ROOT / "notebooks").glob("[!.]*/*.ipynb")), ids=lambda path: path.stem
)
def test_the_prose_of_a_notebook_holds_no_number(path: Path) -> None:
    cells = nbformat.read(path, as_version=4).cells
    found = {cell.source: numbers(cell.source) for cell in cells if cell.cell_type == "markdown"}
    assert not {source: tokens for source, tokens in found.items() if tokens}


def test_a_number_in_prose_would_be_seen() -> None:
    assert set(numbers("Two ways, `3` codes, 74 ms, [see](table-4.html)")) == {"Two", "74"}


@pytest.mark.parametrize("number", ["03", "06", "07", "08", "09", "10", "11", "12"])
def test_a_probes_notebook_lists_the_runs_and_shows_one(number: str) -> None:
    """Rows of two runs of one serve never stand in one table; 06 reads `best_run`, one run a serve."""
    (path,) = (ROOT / "notebooks" / "kimi_k3").glob(f"{number}-*.ipynb")
    source = "\n".join(cell.source for cell in nbformat.read(path, as_version=4).cells)
    assert "print(runs_text(" in source and ('{"seal": ' in source or number == "06")
