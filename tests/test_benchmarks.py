"""`make bench`: what it runs exists, a verdict follows the ratio, and what could not run is said."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import _figures
import bench_all

FOLDER = Path(bench_all.__file__).parent


def test_every_script_is_there_and_hands_over_figures() -> None:
    for script, _, _ in bench_all.SCRIPTS:
        assert "figure(" in (FOLDER / script).read_text()
    assert sum(limit for _, _, limit in bench_all.SCRIPTS) <= 780  # the last ones give way


@pytest.mark.parametrize(
    ("given", "verdict"),
    [
        ({"least": 2.0}, "met"),
        ({"most": 2.0}, "MISSED"),
        ({"ratio": 0.5, "of": "peer", "least": 0.8}, "MISSED"),
        ({"ratio": 0.5, "of": "peer", "most": 0.8}, "met"),
        ({}, ""),
    ],
)
def test_a_bar_holds_for_the_ratio_where_there_is_one(
    given: dict[str, float], verdict: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = _figures.figure("speed", 3.0, "GB/s", **given)  # type: ignore[arg-type]
    assert found["verdict"] == verdict
    assert capsys.readouterr().out.rstrip("\n") == _figures.line(found)


def test_figures_are_kept_and_what_failed_or_had_no_time_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "good.py").write_text("from _figures import figure\nfigure('speed', 3, 'GB/s', least=2)\n")
    (tmp_path / "bad.py").write_text("raise SystemExit('no luck')\n")
    monkeypatch.setenv("PYTHONPATH", str(FOLDER))
    monkeypatch.setattr(bench_all, "HERE", tmp_path)
    monkeypatch.setattr(bench_all, "SCRIPTS", [("good.py", [], 600), ("bad.py", [], 600), ("late.py", [], 0)])
    monkeypatch.setattr(sys, "argv", ["bench_all.py"])
    bench_all.main()
    out = capsys.readouterr().out
    assert "speed" in out and "met" in out
    assert "NOT RUN: bad.py: ended with 1: no luck" in out
    assert "NOT RUN: late.py: no time was left" in out
    assert "NOT RUN: headers against hf-mem" in out
