"""Rows as text: one line a row whatever the width, and the same rows as CSV, JSON and Markdown."""

from __future__ import annotations

import csv
import io
import json

import pytest
from click.testing import CliRunner

from k3repro.cli import main, root
from k3repro.cli.tables import table_lines
from k3repro.errors import Interrupted
from k3repro.probes import run_probe
from k3repro.store import Store

NAME = "k3-2p2d-mi325x-with-a-name-of-" + "many" * 30


def test_a_row_is_one_line_and_nothing_wraps_inside_a_name() -> None:
    rows = [{"name": NAME, "n": 5, "why": None}, {"name": "x", "n": 12345, "why": "a\nb"}]
    head, first, second = table_lines(rows)
    assert NAME in first and first.index("5") > 0 and first.rstrip().endswith("NULL")
    assert head.index("n", 5) == len(head) - len("why") - 3 and r"a\nb" in second and "12345" in second


@pytest.fixture
def listed(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Store:
    store = Store(tmp_path_factory.mktemp("store"))
    monkeypatch.setenv("K3REPRO_ARTIFACTS", str(store.root))
    monkeypatch.setenv("COLUMNS", "40")
    run_probe("needle-gate", target="twin:mi325x", store=store, context=500, concurrency=(1, 2))
    return store


def run(*arguments: str) -> str:
    result = CliRunner().invoke(root, ["artifacts", *arguments])
    assert result.exit_code == 0, result.exception
    return result.stdout


def test_a_list_is_whole_in_a_narrow_pipe_and_in_every_format(listed: Store) -> None:
    (artifact,) = listed.artifacts()
    head, line, *_ = run("list").splitlines()
    assert head.split() == ["artifact", "subject", "tier", "verdict", "sealed", "rows", "kB", "seal"]
    assert line.split()[:4] == ["needle-gate", "twin:mi325x", "simulated", "ok"]
    assert line.split()[4].count("-") == 2 and line.split()[-1] == artifact.seal[:12]
    (row,) = csv.DictReader(io.StringIO(run("list", "--format", "csv")))
    assert row["artifact"] == "needle-gate"
    assert json.loads(run("list", "--format", "json"))[0]["seal"] == artifact.seal[:12]
    assert run("list", "--format", "md").startswith("| artifact | subject |")
    assert run("sql", "SELECT * FROM artifacts").splitlines()[1].startswith(artifact.seal)


@pytest.mark.parametrize(
    "arguments",
    [
        ("budget", "--model", "llama-3.1-405b", "--platform", "h100"),
        ("capacity", "grid", "--platform", "mi325x", "--contexts", "32K,64K", "--pool", "67.08GiB"),
        ("artifacts", "show", "needle-gate@twin:mi325x"),
    ],
)
def test_nothing_is_cut_or_wrapped_in_a_narrow_pipe(
    listed: Store, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = []
    for columns in ("40", "400"):
        monkeypatch.setenv("COLUMNS", columns)
        said.append(CliRunner().invoke(root, arguments).stdout)
    assert "…" not in said[0] and len(said[0].splitlines()) == len(said[1].splitlines()) > 5


@pytest.mark.parametrize(
    ("option", "value", "near"),
    [
        ("--tier", "simulatd", "simulated"),
        ("--name", "needle", "needle-gate"),
        ("--subject", "mi325x", "twin:"),
    ],
)
def test_a_filter_that_nothing_has_is_an_error_with_what_there_is(
    listed: Store, capsys: pytest.CaptureFixture[str], option: str, value: str, near: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["artifacts", "list", option, value])
    said = capsys.readouterr().err
    assert ended.value.code == 2 and value in said and near in said and said.count("\n") == 1


def test_a_stopped_run_exits_130(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise Interrupted("stopped as asked", where="con=4", fix="The same command resumes.")

    monkeypatch.setattr("k3repro.cli.probe.run_probe", stopped)
    with pytest.raises(SystemExit) as ended:
        main(["probe", "envelope", "--target", "twin:mi325x"])
    assert ended.value.code == 130 and "The same command resumes" in capsys.readouterr().err
