"""The export: complete, a function of its input, and read by other tools where they are installed."""

import hashlib
import json
from pathlib import Path

import pytest

from k3repro.claims import Library, export_report
from k3repro.errors import InputError

ROOT = Path(__file__).resolve().parents[2] / "artifacts"


@pytest.fixture
def report(tmp_path):
    folder = tmp_path / "site"
    (folder / "artifacts").mkdir(parents=True)
    (folder / "index.html").write_text("<p>a report</p>")
    (folder / "artifacts" / "a.duckdb").write_bytes(b"\0rows")
    return folder


def export(report, to, **options):
    audits = [Library(ROOT).audit("kimi-k3-summary")]
    return export_report(report, to, audits, **{"name": "report", "date": "2026-11-29", **options})


def test_every_file_is_described_with_its_digest(report, tmp_path):
    export(report, tmp_path / "out")
    crate = json.loads((tmp_path / "out" / "ro-crate-metadata.json").read_text())
    graph = {entity["@id"]: entity for entity in crate["@graph"]}
    files = {p.relative_to(tmp_path / "out").as_posix() for p in (tmp_path / "out").rglob("*") if p.is_file()}
    parts = {part["@id"] for part in graph["./"]["hasPart"]}
    assert parts == files - {"ro-crate-metadata.json"}
    for name in parts:
        data = (tmp_path / "out" / name).read_bytes()
        assert graph[name]["sha256"] == hashlib.sha256(data).hexdigest()
        assert graph[name]["contentSize"] == str(len(data))
    assert graph["ro-crate-metadata.json"]["about"] == {"@id": "./"}


def test_the_statement_covers_the_files_and_says_what_failed(report, tmp_path):
    export(report, tmp_path / "out")
    statement = json.loads((tmp_path / "out" / "statement.intoto.json").read_text())
    assert {subject["name"] for subject in statement["subject"]} == {
        "index.html",
        "artifacts/a.duckdb",
        "claims-audit.json",
    }
    assert statement["predicate"]["result"] == "FAILED"
    assert "kimi-k3-summary:pool.mi325x" in statement["predicate"]["failedTests"]


def test_the_same_report_gives_the_same_export(report, tmp_path):
    one, two = export(report, tmp_path / "one"), export(report, tmp_path / "two")
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in two]


def test_nothing_is_overwritten_and_wrong_input_is_named(report, tmp_path):
    for options, to in (({}, report), ({"license_id": "nobody"}, tmp_path / "x")):
        with pytest.raises(InputError):
            export(report, to, **options)
    with pytest.raises(InputError, match="no folder"):
        export(tmp_path / "absent", tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_the_crate_is_read_by_ro_crate_py(report, tmp_path):
    rocrate = pytest.importorskip("rocrate.rocrate", reason="optional: pip install rocrate")
    export(report, tmp_path / "out")
    crate = rocrate.ROCrate(tmp_path / "out")
    assert crate.name == "report" and {"index.html", "artifacts/a.duckdb"} <= {
        e.id for e in crate.data_entities
    }


def test_the_statement_is_valid_for_in_toto(report, tmp_path):
    pb = pytest.importorskip(
        "in_toto_attestation.v1.statement_pb2", reason="optional: pip install in-toto-attestation"
    )
    from google.protobuf.json_format import ParseDict
    from in_toto_attestation.v1.statement import Statement

    export(report, tmp_path / "out")
    parsed = ParseDict(json.loads((tmp_path / "out" / "statement.intoto.json").read_text()), pb.Statement())
    Statement.copy_from_pb(parsed).validate()
