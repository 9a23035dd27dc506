"""`k3repro demo`, `python -m k3repro` and completion: the first minutes of somebody new."""

from __future__ import annotations

import subprocess
import sys

import pytest
from click.testing import CliRunner

from k3repro.cli import main, root
from k3repro.cli.demo import TOUR


def test_the_tour_shows_a_gate_that_passes_and_one_that_fails_and_ends_well() -> None:
    done = CliRunner().invoke(root, ["demo"])
    assert done.exit_code == 0, done.output
    for what, arguments, _ in TOUR:
        assert what in done.stdout and f"k3repro {arguments[0]}" in done.stdout
    assert "NOT valid" in done.stdout and "transport race" in done.stdout and "TTFT" in done.stdout
    assert done.stdout.rstrip().endswith("k3repro run router --target http://YOUR-ROUTER:30000")


def test_the_module_is_the_command_and_shells_complete_it() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "k3repro", "--version"], capture_output=True, text=True, check=True
    )
    assert "0." in done.stdout
    for shell in ("bash", "zsh", "fish"):
        assert "_K3REPRO_COMPLETE" in CliRunner().invoke(root, ["completion", shell]).stdout


def test_a_module_that_is_missing_names_its_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(**_: object) -> None:
        raise ModuleNotFoundError("No module named 'jinja2'", name="jinja2")

    monkeypatch.setattr(root, "main", missing)
    with pytest.raises(SystemExit) as ended:
        main(["site", "build"])
    assert ended.value.code == 3 and "pip install 'k3repro[site]'" in capsys.readouterr().err
