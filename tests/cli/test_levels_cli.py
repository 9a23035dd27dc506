"""`k3repro audit levels`: findings and exit codes of a table, and what is said of a file that is none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from k3repro.cli import main

PUBLICATIONS = Path(__file__).resolve().parents[2] / "artifacts" / "publications" / "node"
TABLE = str(PUBLICATIONS / "mi325x-cookbook.toml")


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        main(["audit", "levels", *arguments])
    captured = capsys.readouterr()
    return int(stop.value.code or 0), captured.out, captured.err


def test_a_table_with_findings(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, TABLE, "--steps")
    assert code == 1 and "22 ladders" in out and "above-dense-peak: llama-3.1-405b/fine-sweep at 500" in out
    assert "bound-trend" not in out  # nobody said here what binds
    code, out, _ = run(capsys, TABLE, "--figures", str(PUBLICATIONS / "mi325x-crossarch.toml"), "--json")
    kinds = {row["kind"] for row in json.loads(out)["findings"]}
    assert code == 1 and {"bound-trend", "ceiling-not-shared"} <= kinds


def test_a_table_without_findings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Quick mode up to 50 users: only the stated length is contradicted, and without one nothing is."""
    text = (PUBLICATIONS / "mi325x-cookbook.toml").read_text(encoding="utf-8")
    keep = "qwen3-vl-235b/stress/three-images"
    lines = [line for line in text.splitlines() if not line.startswith('  ["') or keep in line]
    path = tmp_path / "levels.toml"
    path.write_text("\n".join(lines), encoding="utf-8")
    code, out, _ = run(capsys, str(path))
    assert (code, out.strip()) == (0, "1 ladders, 0 findings of 0 kinds")


@pytest.mark.parametrize(
    ("name", "says"), [("gpu-prices", "no tables"), ("nowhere", "no such transcription")]
)
def test_what_is_no_table_of_levels(name: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, str(PUBLICATIONS / f"{name}.toml"))
    assert code == 2 and says in err
