"""A stranger's file: only declared base tables, a single SELECT, no file, no time, no memory."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from store_samples import mean_wall, seal_sweep

from k3repro.errors import ArtifactCorrupt, ArtifactMissing, ArtifactRefused, InputError
from k3repro.store import Artifact, Catalog, Store, UntrustedArtifact, open_untrusted, open_untrusted_catalog


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> list[Artifact]:
    store = Store(tmp_path_factory.mktemp("stranger"))
    sweep = seal_sweep(store)
    return [sweep, store.derive(mean_wall, [sweep])]


@pytest.fixture(scope="module")
def opened(sealed: list[Artifact]) -> Iterator[UntrustedArtifact]:
    with open_untrusted(sealed[0].path, timeout_s=600) as artifact:
        yield artifact


def test_same_reading_surface(opened: UntrustedArtifact, sealed: list[Artifact]) -> None:
    trusted = sealed[0]
    assert opened.rows("requests") == trusted.rows("requests")
    for name in ("seal", "data", "name", "subject", "tier", "basis", "parameters", "verdict", "row_counts"):
        assert getattr(opened, name) == getattr(trusted, name), name
    assert opened.sql("SELECT count(*) AS n FROM requests WHERE tokens > $t", {"t": 1}) == [{"n": 4}]


HOSTILE_SQL = [
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM read_blob('/etc/passwd')",
    "SELECT * FROM glob('/etc/*')",
    "SELECT * FROM '/etc/passwd'",
    "SELECT * FROM query('SELECT * FROM read_text(''/etc/passwd'')')",
    "COPY (SELECT 1) TO '/tmp/stolen.csv'",
    "COPY requests TO '/tmp/stolen.parquet'",
    "EXPORT DATABASE '/tmp/stolen'",
    "ATTACH '/tmp/other.duckdb'",
    "PRAGMA database_list",
    "PRAGMA enable_profiling",
    "SET enable_external_access = true",
    "RESET lock_configuration",
    "INSTALL httpfs",
    "LOAD httpfs",
    "CALL pragma_version()",
    "SELECT 1; SELECT 2",
    "SELECT 1; DROP TABLE requests",
    "",
    "CREATE TABLE t AS SELECT 1",
    "CREATE MACRO m(x) AS x",
    "DELETE FROM requests",
    "WITH gone AS (DELETE FROM requests RETURNING *) SELECT * FROM gone",
    "EXPLAIN ANALYZE SELECT 1",
    "SELECT * FROM request",
    "SELECT * FROM connection",
    "SELECT 0.0 / 0.0 AS x, 'NaN'::DOUBLE AS y",
]


@pytest.mark.parametrize("sql", HOSTILE_SQL)
def test_hostile_sql_is_refused(opened: UntrustedArtifact, sql: str) -> None:
    with pytest.raises((InputError, ArtifactRefused)):
        opened.sql(sql)
    assert opened.sql("SELECT count(*) AS n FROM requests") == [{"n": 8}]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE hash(a.range * b.range) = 1",
        "WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r) SELECT max(i) FROM r",
        "SELECT repeat('x', 2000000000) AS a, repeat('y', 2000000000) AS b",
        "SELECT list(range) AS l FROM range(1000000000)",
        "SELECT range FROM range(100000000)",
    ],
)
def test_costly_sql_ends(sealed: list[Artifact], sql: str) -> None:
    with open_untrusted(sealed[0].path, timeout_s=2, memory_mb=200) as artifact:
        with pytest.raises((InputError, ArtifactRefused)):
            artifact.sql(sql)
        assert artifact.sql("SELECT 1 AS one") == [{"one": 1}]


HOSTILE_CONTENT = [
    "CREATE VIEW v AS SELECT * FROM read_text('/etc/passwd')",
    "CREATE MACRO m(x) AS x + 1",
    "CREATE MACRO count_all() AS TABLE SELECT * FROM read_text('/etc/passwd')",
    "CREATE TABLE extra (a BIGINT)",
    "CREATE SEQUENCE s",
    "CREATE TYPE mood AS ENUM ('a')",
    "CREATE SCHEMA other",
    "CREATE INDEX i ON requests (request_id)",
    "DROP TABLE requests",
    "ALTER TABLE requests ADD COLUMN surprise BIGINT",
    "ALTER TABLE requests ALTER COLUMN tokens SET DEFAULT 3",
    "DROP TABLE requests; CREATE VIEW requests AS SELECT * FROM read_text('/etc/passwd')",
    """DROP TABLE requests; CREATE TABLE requests (request_id VARCHAR NOT NULL, wall_s DOUBLE, tokens BIGINT,
    text VARCHAR, fingerprint VARCHAR GENERATED ALWAYS AS (upper(request_id)))""",
    "UPDATE meta SET document = replace(document, 'simulated', 'measured')",
    "DROP TABLE meta",
]


def _tampered(artifact: Artifact, folder: Path, sql: str) -> Path:
    path = folder / "stranger.duckdb"
    shutil.copyfile(artifact.path, path)
    with duckdb.connect(str(path)) as connection:
        connection.execute(sql)
    return path


@pytest.mark.parametrize("sql", HOSTILE_CONTENT)
def test_hostile_content_is_refused(sealed: list[Artifact], tmp_path: Path, sql: str) -> None:
    with pytest.raises((ArtifactRefused, ArtifactCorrupt)):
        open_untrusted(_tampered(sealed[0], tmp_path, sql))


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE requests SET tokens = tokens + 1 WHERE request_id = 'a-0001'",
        "DELETE FROM requests WHERE request_id = 'a-0001'",
        "UPDATE requests SET wall_s = 0.0 WHERE wall_s IS NULL",
        "UPDATE requests SET request_id = 'zzz' WHERE request_id = 'a-0001'",
        "UPDATE requests SET wall_s = 'NaN' WHERE request_id = 'a-0001'",
    ],
)
def test_changed_rows_are_found(sealed: list[Artifact], tmp_path: Path, sql: str) -> None:
    with pytest.raises(ArtifactCorrupt):
        open_untrusted(_tampered(sealed[0], tmp_path, sql))


def test_what_is_not_an_artifact(sealed: list[Artifact], tmp_path: Path) -> None:
    with pytest.raises(ArtifactMissing):
        open_untrusted(tmp_path / "absent.duckdb")
    text = tmp_path / "text.duckdb"
    text.write_text("hello " * 100)
    link = tmp_path / "link.duckdb"
    link.symlink_to(sealed[0].path)
    half = tmp_path / "half.duckdb"
    half.write_bytes(sealed[0].path.read_bytes()[:20_000])
    walled = tmp_path / "walled.duckdb"
    shutil.copyfile(sealed[0].path, walled)
    (tmp_path / "walled.duckdb.wal").write_bytes(b"replay me")
    foreign = tmp_path / "foreign.duckdb"
    with duckdb.connect(str(foreign)) as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS a")
    for path in (text, link, half, walled, foreign, tmp_path):
        with pytest.raises((ArtifactRefused, ArtifactCorrupt)):
            open_untrusted(path)


def test_catalog_gives_the_same_rows_and_reports_bad_files(sealed: list[Artifact], tmp_path: Path) -> None:
    bad = _tampered(sealed[0], tmp_path, HOSTILE_CONTENT[0])
    sql = "SELECT w.seal, slope, r.seal AS source, r.tokens FROM mean_wall_law w, osl_sweep_requests r"
    with open_untrusted_catalog([sealed[0].path, bad, sealed[1].path]) as catalog:
        assert [finding.where for finding in catalog.findings] == [str(bad)]
        assert set(catalog.documents) == {artifact.seal for artifact in sealed}
        assert catalog.query(sql) == Catalog.of(sealed).query(sql)
        assert catalog.query("SELECT seal, inputs FROM artifacts") == Catalog.of(sealed).query(
            "SELECT seal, inputs FROM artifacts"
        )
        for hostile in HOSTILE_SQL:
            if "NaN" not in hostile:
                with pytest.raises((InputError, ArtifactRefused)):
                    catalog.query(hostile.replace("requests", "osl_sweep_requests"))
        assert catalog.query("SELECT count(*) AS n FROM osl_sweep_requests") == [{"n": 8}]


def test_work_is_bounded_in_processor_time(sealed: list[Artifact], monkeypatch: pytest.MonkeyPatch) -> None:
    """However long somebody would wait: what a small file decompresses to has no other bound."""
    monkeypatch.setattr("k3repro.store._untrusted.CPU_S", 2.0)
    endless = "SELECT count(*) AS n FROM range(1000000) a, range(1000000) b WHERE hash(a.range * b.range) = 1"
    with open_untrusted(sealed[0].path, timeout_s=3600) as artifact:
        with pytest.raises(ArtifactRefused, match="more memory or processor time than allowed"):
            artifact.sql(endless)
        assert len(artifact.rows("requests")) == len(sealed[0].rows("requests"))


def test_a_reader_that_keeps_dying_gives_up(
    sealed: list[Artifact], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [Path(shutil.copy(sealed[0].path, tmp_path / f"{i}.duckdb")) for i in range(5)]
    died = "import sys; sys.stdin.readline(); print('{\"opening\": 0}', flush=True)"
    monkeypatch.setattr("k3repro.store._untrusted._START", died)
    with pytest.raises(ArtifactRefused, match="died on 3 files"):
        open_untrusted_catalog(paths)
