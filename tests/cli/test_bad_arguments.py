"""Arguments that no command foresaw: one line, the right exit code, never a traceback."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest

from k3repro import cli
from k3repro.errors import K3Error

LONG = "9" * 400
BAD = [
    (["artifacts", "list", "--store", "abc\0def"], 2),
    (["artifacts", "list", "--store", LONG], 3),
    (["artifacts", "sql", "SELECT 1", "--store", "/dev/null"], 3),
    (["artifacts", "sql", "\udcff"], 2),
    (["artifacts", "list", "--nonsense"], 2),
    (["budget", "--overhead", LONG], 3),
    (["nonsense"], 2),
    (["budget", "--platform="], 2),
    (["budget", "--platform", ""], 2),
    (["artifacts", "sql", ""], 2),
    (["probe", "needle-gate", "--target="], 2),
    (["capacity", "size", "--isl", "4K", "--osl", "100", "--users", "many"], 2),
    (["probe", "latency", "--requests"], 2),
]


@pytest.mark.parametrize(("arguments", "code"), BAD, ids=lambda item: str(item)[:40])
def test_a_bad_argument_is_one_line_and_an_object(
    arguments: list[str],
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("K3REPRO_ARTIFACTS", str(tmp_path / "artifacts"))
    with pytest.raises(SystemExit) as stop:
        cli.main([*arguments, "--json"])
    out, err = capfd.readouterr()
    assert stop.value.code == code
    assert json.loads(out)["what"]
    assert "Traceback" not in err and len(err.strip().splitlines()) == 1


@click.command()
@click.argument("how")
def breaks(how: str) -> None:
    if how == "interrupt":
        raise KeyboardInterrupt
    raise RuntimeError("a defect\nof two lines")


def test_a_defect_is_one_line_and_an_interrupt_is_130(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "root", breaks)
    monkeypatch.delenv("K3REPRO_TRACEBACK", raising=False)
    for how, code in (("interrupt", 130), ("defect", K3Error.exit_code)):
        with pytest.raises(SystemExit) as stop:
            cli.main([how])
        assert stop.value.code == code
    last = capfd.readouterr().err.strip().splitlines()[-1]
    assert "unforeseen RuntimeError: a defect of two lines" in last and "K3REPRO_TRACEBACK" in last
    monkeypatch.setenv("K3REPRO_TRACEBACK", "1")
    with pytest.raises(RuntimeError):
        cli.main(["defect"])
