"""Notebook sources: what counts for freshness, and mistakes found before a kernel starts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from k3repro.errors import PipelineError
from k3repro.pipeline._source import check_parameters, parse_source, read_source

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"


def good() -> dict:
    return json.loads((NOTEBOOKS / "good.ipynb").read_text())


def digest(document: dict) -> str:
    return parse_source(Path("good.ipynb"), json.dumps(document).encode(), where="here").digest


def test_outputs_counts_and_line_lists_do_not_count() -> None:
    before = good()
    after = good()
    for cell in after["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "12"}]
            cell["execution_count"] = 7
        cell["source"] = cell["source"].splitlines(keepends=True)
        cell["metadata"]["collapsed"] = True
    assert digest(before) == digest(after)


@pytest.mark.parametrize("change", ["text", "order", "tag", "kernel", "kind"])
def test_everything_that_can_change_a_result_counts(change: str) -> None:
    document = good()
    if change == "text":
        document["cells"][-1]["source"] += " "
    elif change == "order":
        document["cells"].reverse()
    elif change == "tag":
        document["cells"][1]["metadata"]["tags"] = []
    elif change == "kernel":
        document["metadata"]["kernelspec"]["name"] = "other"
    else:
        document["cells"][-1]["cell_type"] = "raw"
    assert digest(document) != digest(good())


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", "not a notebook of format 4"),
        (b"{}", "not a notebook of format 4"),
        (b"[1]", "not a notebook of format 4"),
        (b'{"cells": [{}], "nbformat": 4, "metadata": {}}', "not a notebook of format 4"),
        (b'{"cells": [], "nbformat": 3, "metadata": {}}', "not a notebook of format 4"),
        (b'{"cells": [], "nbformat": 4, "metadata": {}}', "names no kernel"),
        (b"\xff\xfe", "not a notebook of format 4"),
    ],
)
def test_what_is_no_notebook_is_one_line(raw: bytes, said: str) -> None:
    with pytest.raises(PipelineError, match=said):
        parse_source(Path("n.ipynb"), raw, where="stage 'a'")


def test_a_missing_notebook_names_near_misses() -> None:
    with pytest.raises(PipelineError, match="no notebook goood.ipynb. Did you mean good.ipynb"):
        read_source(NOTEBOOKS / "goood.ipynb", where="stage 'a'")


def test_parameters_the_notebook_lacks_are_refused() -> None:
    source = read_source(NOTEBOOKS / "good.ipynb", where="x")
    check_parameters(source, {"SCALE": 2.0}, where="x")
    with pytest.raises(PipelineError, match="has no parameter 'SCLE'. Did you mean SCALE?"):
        check_parameters(source, {"SCLE": 2.0}, where="x")
    with pytest.raises(PipelineError, match="has no cell tagged 'parameters'"):
        check_parameters(read_source(NOTEBOOKS / "no-parameters.ipynb", where="x"), {"SCALE": 1}, where="x")
