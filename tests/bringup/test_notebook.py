"""The notebook runs from top to bottom without a cluster."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest


def test_the_notebook_without_a_cluster(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It seals plans: into a store of its own, or a changed recipe would leave files in the checkout.
    monkeypatch.setenv("K3REPRO_ARTIFACTS", str(tmp_path))
    path = Path(__file__).parents[2] / "notebooks" / "00-bring-up.ipynb"
    names: dict[str, object] = {}
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "code":
            assert not cell.outputs
            exec(compile(cell.source, path.name, "exec"), names)
    said = capsys.readouterr().out
    assert list(tmp_path.glob("bring-up-plan/*.duckdb"))
    assert "clients --> router" in said and "set START = True" in said and "[tuned-rows]" in said
