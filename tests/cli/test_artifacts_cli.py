"""`k3repro artifacts` and `k3repro audit artifacts`: what people and programs read, and the exit codes."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from k3repro.cli import main
from k3repro.store import Artifact, Column, Header, Schema, Store, Table

ROWS = Schema(
    [
        Table(
            "requests",
            [
                Column("request_id", "VARCHAR"),
                Column("wall_s", "DOUBLE", "s", "Wall time."),
                Column("note", "VARCHAR"),
            ],
        )
    ]
)
Call = Callable[..., tuple[int, str, str]]


def _seal(
    store: Store, walls: Sequence[float | None], parameters: Mapping[str, Any] | None = None
) -> Artifact:
    header = Header(
        "osl-sweep", "twin:mi325x", "probe", "k3repro.units.stats:quantile", parameters or {}, clock="virtual"
    )
    with store.begin(header, ROWS) as run:
        run.commit(
            "a", {"requests": [{"request_id": f"r{i}", "wall_s": wall} for i, wall in enumerate(walls)]}
        )
        return run.seal({"ok": True})


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("K3REPRO_ARTIFACTS", str(tmp_path / "artifacts"))
    monkeypatch.setenv("COLUMNS", "160")
    return Store()


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(list(arguments))
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    return run


def test_list_and_show(store: Store, call: Call) -> None:
    artifact = _seal(store, [1.5, None])
    code, out, _ = call("artifacts", "list")
    assert code == 0 and "osl-sweep" in out and "unverified" in out and artifact.seal[:12] in out
    code, out, _ = call("artifacts", "list", "--json")
    assert (
        json.loads(out)["artifacts"][0]["seal"] == artifact.seal and json.loads(out)["heads"] == store.heads()
    )
    code, out, _ = call("artifacts", "show", "osl-sweep@twin:mi325x")
    assert code == 0 and artifact.data in out and "Wall time." in out and "NULL" in out
    code, out, _ = call("artifacts", "show", artifact.seal[:8], "--json", "--rows", "1")
    assert json.loads(out)["rows"] == [{"request_id": "r0", "wall_s": 1.5, "note": None}]


def test_sql(store: Store, call: Call) -> None:
    _seal(store, [1.5, None, 2.5])
    query = "SELECT request_id, wall_s FROM osl_sweep_requests WHERE wall_s > $w ORDER BY 1"
    assert json.loads(call("artifacts", "sql", query, "-p", "w=2", "--json")[1]) == [
        {"request_id": "r2", "wall_s": 2.5}
    ]
    assert call("artifacts", "sql", query, "-p", "w=2", "--csv")[1] == '"request_id","wall_s"\n"r2",2.5\n'
    own = call(
        "artifacts",
        "sql",
        "SELECT count(*) AS n FROM requests",
        "--artifact",
        "osl-sweep@twin:mi325x",
        "--json",
    )
    assert json.loads(own[1]) == [{"n": 3}]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("artifacts", "show", "nothing@here"), 3, "artifacts list"),
        (("artifacts", "sql", "SELECT * FROM nowhere"), 2, "the tables are"),
        (("artifacts", "sql", "COPY (SELECT 1) TO '/tmp/x.csv'"), 2, "single SELECT"),
        (("artifacts", "sql", "SELECT 1 AS a; SELECT 2 AS b"), 2, "single SELECT"),
        (("artifacts", "sql", "SELECT 1 AS a", "-p", "broken"), 2, "NAME=VALUE"),
        (("artifacts", "retract", "osl-sweep@twin:mi325x", "--reason", " "), 2, "reason"),
        (("artifacts", "retract", "osl-sweep@twin:mi325x"), 2, "--reason"),
        (("artifacts", "export", "osl-sweep@twin:mi325x", "--format", "xls"), 2, "xls"),
        (("artifacts", "export", "osl-sweep@twin:mi325x", "--to", "/dev/null/x"), 3, "cannot write"),
    ],
)
def test_bad_input_is_one_line_and_its_exit_code(
    store: Store, call: Call, arguments: tuple[str, ...], code: int, words: str
) -> None:
    _seal(store, [1.0])
    got, out, err = call(*arguments)
    assert got == code and words in err and "Traceback" not in err and out == ""


@pytest.mark.parametrize("form", ["csv", "json", "parquet"])
def test_export_gives_back_the_rows_with_units(store: Store, call: Call, tmp_path: Path, form: str) -> None:
    artifact = _seal(store, [0.1, None, 1e-300])
    code, out, _ = call(
        "artifacts",
        "export",
        "osl-sweep@twin:mi325x",
        "--to",
        str(tmp_path / "rows"),
        "--format",
        form,
        "--json",
    )
    files = [Path(name) for name in json.loads(out)["files"]]
    assert code == 0 and all(path.is_file() for path in files)
    described = json.loads(files[-1].read_text())
    assert described["seal"] == artifact.seal and described["tier"] == "unverified"
    if form == "csv":
        rows = [
            {"request_id": r["request_id"], "wall_s": float(r["wall_s"]) if r["wall_s"] else None}
            for r in csv.DictReader(files[0].open())
        ]
        assert described["columns"][1]["unit"] == "s"
    elif form == "json":
        rows = described["tables"]["requests"]["rows"]
        assert described["tables"]["requests"]["columns"][1]["unit"] == "s"
    else:
        parquet = pytest.importorskip("pyarrow.parquet")
        rows = parquet.read_table(files[0]).to_pylist()
    assert [row["wall_s"] for row in rows] == [0.1, None, 1e-300]


def test_audit_and_retract(store: Store, call: Call) -> None:
    artifact = _seal(store, [1.0])
    head = store.heads()[0]
    assert call("audit", "artifacts", "--full", "--recompute", "--known-head", head)[0] == 0
    code, out, _ = call("artifacts", "retract", artifact.seal, "--reason", "wrong clock", "--json")
    assert code == 0 and list(json.loads(out)["withdrawn"]) == [artifact.seal]
    assert (
        "withdrawn" in call("artifacts", "list", "--all")[1]
        and "wrong clock" in call("artifacts", "show", artifact.seal)[1]
    )
    artifact.path.unlink()
    code, out, _ = call("audit", "artifacts")
    assert code == 1 and "gone" in out
    code, out, _ = call("audit", "artifacts", "--known-head", "0" * 64, "--json")
    assert code == 1 and {finding["code"] for finding in json.loads(out)["findings"]} == {
        "file-missing",
        "ledger-rewritten",
    }


def test_list_opens_no_file_and_says_what_is_gone(store: Store, call: Call) -> None:
    _seal(store, [1.0]).path.write_bytes(b"broken")
    assert call("artifacts", "list")[0] == 0
    next((store.root / "osl-sweep").iterdir()).unlink()
    code, out, _ = call("artifacts", "list", "--json")
    assert code == 0 and json.loads(out)["artifacts"][0]["state"].startswith("missing")
    code, _, err = call("artifacts", "show", "osl-sweep@twin:mi325x")
    assert code == 3 and "restore it from git" in err


def test_supersede(store: Store, call: Call) -> None:
    old, new = _seal(store, [1.0], {"a": 1}), _seal(store, [2.0], {"a": 2})
    assert call("artifacts", "supersede", old.seal, new.seal, "--reason", "again")[0] == 0
    assert store.artifacts() == [new]


def test_every_command_has_examples(call: Call) -> None:
    for command in ("list", "show", "sql", "export", "retract", "supersede"):
        assert "k3repro artifacts " + command in call("artifacts", command, "--help")[1]
    assert "k3repro audit artifacts" in call("audit", "artifacts", "--help")[1]
    assert "k3repro audit site" in call("audit", "site", "--help")[1]
