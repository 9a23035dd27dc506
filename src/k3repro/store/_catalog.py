"""The catalog: all current artifacts as one read-only database, a disposable cache in `artifacts/.cache/`.

A cache file is named by the set of seals it holds, built beside its name, renamed into place and never
changed, so any number of processes may use it. A new one starts from a copy of the last, so each artifact
is read once.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from k3repro.errors import InputError, StoreError
from k3repro.store._artifact import Artifact, read_document
from k3repro.store._duck import (
    attached,
    connect_memory,
    connect_read_only,
    literal,
    located,
    open_error,
    quoted,
    result_rows,
)
from k3repro.store._files import disk_errors, locked
from k3repro.store._schema import canonical_json
from k3repro.store._views import drop_views, make_views, views_text

if TYPE_CHECKING:
    from k3repro.store._store import Store

VERSION = 4
_AT_ONCE = 64  # files attached together
_ARTIFACTS_DDL = """(seal VARCHAR, data VARCHAR, name VARCHAR, subject VARCHAR, kind VARCHAR, tier VARCHAR,
 basis VARCHAR, run_id VARCHAR, clock VARCHAR, verdict_ok BOOLEAN, producer VARCHAR, inputs VARCHAR[],
 parameters VARCHAR, serve VARCHAR, serves BIGINT, citation VARCHAR, verdict VARCHAR, environment VARCHAR,
 rows VARCHAR, schema VARCHAR)"""


_TYPE = re.compile(r"\w+ (\w+(?:\[\])?)[,)]")


class Catalog:
    """One view per (artifact name, table): seal, subject, tier, basis, run_id, payload; `artifacts`; and
    those of views.sql over all probes.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection

    @classmethod
    def of(cls, artifacts: Sequence[Artifact]) -> Catalog:
        """A catalog of just these artifacts, in memory."""
        connection = connect_memory()
        fill(connection, artifacts)
        return cls(connection)

    @classmethod
    def of_store(cls, store: Store) -> Catalog:
        """The cached catalog of a store's current artifacts, brought up to date."""
        artifacts = sorted(store.artifacts(), key=lambda artifact: artifact.seal)
        name = sha256(
            canonical_json([VERSION, views_text(), duckdb.__version__, [a.seal for a in artifacts]]).encode()
        ).hexdigest()[:24]
        path = store.root / ".cache" / "catalog" / f"{name}.duckdb"
        try:
            return cls(connect_read_only(_built(path, artifacts)))
        except StoreError:
            # Torn by a crash, or taken away by a newer catalog: made anew, once.
            with disk_errors(path):
                path.unlink(missing_ok=True)
            return cls(connect_read_only(_built(path, artifacts)))

    def query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """The rows of a query; `$name` in the SQL takes `parameters["name"]`.

        Raises:
            InputError: wrong SQL, or NaN or infinity in the result.
        """
        try:
            return result_rows(self._connection, sql, parameters, "catalog")
        except InputError as error:
            if "Table with name" not in error.what:
                raise
            fix = f"Correct the SQL; the tables are {', '.join(self.tables())}."
            raise InputError(error.what.partition(" Did you")[0], where="catalog", fix=fix) from None

    def tables(self) -> list[str]:
        """The names that a query can read from, sorted."""
        names = self._connection.execute("SELECT table_name FROM information_schema.tables").fetchall()
        return sorted(str(name) for (name,) in names if not name.startswith("_"))

    def close(self) -> None:
        """Close the database."""
        self._connection.close()

    def __enter__(self) -> Catalog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def view_name(artifact: str, table: str) -> str:
    """Name of a view: ("osl-sweep", "requests") is osl_sweep_requests; ("relation", "relation") relation."""
    return table if artifact == table == "relation" else f"{artifact.replace('-', '_')}_{table}"


def _built(path: Path, artifacts: Sequence[Artifact]) -> Path:
    """The cache file, made first when it is not there."""
    if not path.is_file():
        with locked(path.with_name("lock")):
            if not path.is_file():
                _build(path, artifacts)
    return path


def _build(path: Path, artifacts: Sequence[Artifact]) -> None:
    temporary = path.with_name(f"building-{os.getpid()}")
    previous = max(path.parent.glob("*.duckdb"), key=lambda p: p.stat().st_mtime, default=None)
    with disk_errors(path):
        if previous is not None:
            shutil.copyfile(previous, temporary)
        try:
            _fill_file(temporary, artifacts)
        except (duckdb.Error, StoreError):
            # A cache that cannot be extended (other types under an old name, a torn file) is made anew.
            temporary.unlink(missing_ok=True)
            _fill_file(temporary, artifacts)
        temporary.replace(path)
        for old in sorted(path.parent.glob("*.duckdb"), key=lambda p: p.stat().st_mtime)[:-3]:
            old.unlink(missing_ok=True)


def _fill_file(path: Path, artifacts: Sequence[Artifact]) -> None:
    connection = duckdb.connect(located(path), config={"threads": 1})
    with connection:
        connection.execute("SET TimeZone = 'UTC'")
        fill(connection, artifacts)
        connection.execute("CHECKPOINT")


def fill(connection: duckdb.DuckDBPyConnection, artifacts: Sequence[Artifact]) -> None:
    """Bring the tables of a catalog to exactly these artifacts, in (subject, run, seal, key) order."""
    _read_documents(connection, artifacts)
    connection.execute("CREATE TABLE IF NOT EXISTS _filled (view VARCHAR, artifact VARCHAR, seals VARCHAR)")
    filled = {row[0]: (row[1], json.loads(row[2])) for row in connection.execute("FROM _filled").fetchall()}
    groups = _groups(artifacts)
    drop_views(connection)  # a table that a view reads cannot be renamed
    changed = {
        view: group
        for view, group in groups.items()
        if filled.get(view, ("", []))[1] != [member.seal for member in group[1]]
    }
    for view in filled.keys() - groups.keys():
        connection.execute(f"DROP TABLE {quoted(view)}")
    _fill_views(connection, changed, {view: filled[view][1] for view in changed.keys() & filled.keys()})
    stale = [[view] for view in sorted(filled.keys() - (groups.keys() - changed.keys()))]
    now = [
        [view, members[0].name, json.dumps([member.seal for member in members])]
        for view, (_, members) in changed.items()
    ]
    if stale:
        connection.executemany("DELETE FROM _filled WHERE view = ?", stale)
    if now:
        connection.executemany("INSERT INTO _filled VALUES (?, ?, ?)", now)
    _fill_artifacts(connection, artifacts)
    make_views(connection)


def keep_documents(connection: duckdb.DuckDBPyConnection, documents: Sequence[tuple[str, str]]) -> None:
    """Tell a catalog documents that were just read, by seal: it does not read them again."""
    connection.execute("CREATE TABLE IF NOT EXISTS _documents (seal VARCHAR, document VARCHAR)")
    if documents:
        connection.executemany("INSERT INTO _documents VALUES (?, ?)", [list(item) for item in documents])


def _read_documents(connection: duckdb.DuckDBPyConnection, artifacts: Sequence[Artifact]) -> None:
    """Give every artifact its document: from the cache where it is known, else from its file."""
    keep_documents(connection, [])
    known = dict(connection.execute("FROM _documents").fetchall())
    for artifact in artifacts:
        text = known.get(artifact.seal)
        if text is None:
            with attached(connection, artifact.path) as source:
                text, _ = read_document(connection, artifact.path, f"{source}.")
            connection.execute("INSERT INTO _documents VALUES (?, ?)", [artifact.seal, text])
        artifact.adopt(text)


def _groups(artifacts: Sequence[Artifact]) -> dict[str, tuple[str, list[Artifact]]]:
    groups: dict[str, tuple[str, list[Artifact]]] = {}
    for artifact in _in_order(artifacts):
        for table in artifact.schema.tables:
            view = view_name(artifact.name, table.name)
            members = groups.setdefault(view, (table.name, []))[1]
            if view == "artifacts" or (members and members[0].name != artifact.name):
                raise InputError(
                    f"two artifact names give one view {view}",
                    where=f"{artifact.name}.{table.name}",
                    fix="Rename one.",
                )
            members.append(artifact)
    return groups


def _in_order(artifacts: Iterable[Artifact]) -> list[Artifact]:
    return sorted(artifacts, key=lambda a: (a.subject, a.run_id, a.seal))


def _fill_views(
    connection: duckdb.DuckDBPyConnection,
    views: Mapping[str, tuple[str, list[Artifact]]],
    held: Mapping[str, Sequence[str]],
) -> None:
    """Rebuild tables of views: rows they held come from themselves, the others from their files.

    Files are attached some at a time, each once, and a table takes what it needs of them in one statement.
    """
    for view, (table, members) in views.items():
        if view in held:
            connection.execute(f"ALTER TABLE {quoted(view)} RENAME TO {quoted(f'{view}__old')}")
        connection.execute(f"CREATE TABLE {quoted(view)} {_view_ddl(table, members)}")
    known = {view: frozenset(held.get(view, ())) for view in views}
    unread = {one for view, (_, members) in views.items() for one in members if one.seal not in known[view]}
    every = _in_order({one for _, members in views.values() for one in members})
    for low in range(0, len(every), _AT_ONCE):
        some = {one: f"source_{i}" for i, one in enumerate(every[low : low + _AT_ONCE])}
        with ExitStack() as stack:
            for one in some.keys() & unread:
                stack.enter_context(attached(connection, one.path, some[one]))
            for view, (table, members) in views.items():
                if mine := {one: some[one] for one in members if one in some}:
                    _copy_rows(connection, view, table, mine, known[view])
    for view in held:
        connection.execute(f"DROP TABLE {quoted(f'{view}__old')}")


def _view_ddl(table: str, members: Sequence[Artifact]) -> str:
    """The columns of all members; a name that changed its type between artifacts is an error."""
    types: dict[str, str] = dict.fromkeys(("seal", "subject", "tier", "basis", "run_id"), "VARCHAR")
    for member in members:
        for column in member.schema.table(table).columns:
            if types.setdefault(column.name, column.sql_type) != column.sql_type:
                raise InputError(
                    f"column {column.name} is {types[column.name]} here and {column.sql_type} there",
                    where=f"{member.name}.{table}", fix="Supersede or retract the older artifact.",
                )  # fmt: skip
    return f"({', '.join(f'{quoted(name)} {kind}' for name, kind in types.items())})"


def _copy_rows(
    connection: duckdb.DuckDBPyConnection,
    view: str,
    table: str,
    sources: Mapping[Artifact, str],
    known: frozenset[str],
) -> None:
    """Add the rows of some artifacts to a view's table, in their order."""
    parts = [
        f"SELECT * FROM {quoted(f'{view}__old')} WHERE seal = {literal(member.seal)}"
        if member.seal in known
        else _selected(member, f"{name}.{quoted(table)}")
        for member, name in sources.items()
    ]
    try:
        connection.execute(f"INSERT INTO {quoted(view)} BY NAME {' UNION ALL BY NAME '.join(parts)}")
    except duckdb.Error as error:
        if len(parts) > 1:  # one by one, so that it is known whose rows cannot be read
            for member, name in sources.items():
                _copy_rows(connection, view, table, {member: name}, known)
            return
        raise open_error(next(iter(sources)).path, str(error)) from None


def _selected(member: Artifact, place: str) -> str:
    fixed = ", ".join(
        f"{literal(getattr(member, name))} AS {name}"
        for name in ("seal", "subject", "tier", "basis", "run_id")
    )
    return f"SELECT {fixed}, * FROM {place}"


def _fill_artifacts(connection: duckdb.DuckDBPyConnection, artifacts: Sequence[Artifact]) -> None:
    connection.execute(f"CREATE OR REPLACE TABLE artifacts {_ARTIFACTS_DDL}")
    by_seal = {a.seal: a for a in artifacts}
    rows: list[list[Any]] = []
    for a in sorted(artifacts, key=lambda a: (a.name, a.subject, a.run_id, a.seal)):
        fixed = (a.seal, a.data, a.name, a.subject, a.kind, a.tier, a.basis, a.run_id, a.clock)
        texts = [
            canonical_json(a.document[k]) for k in ("citation", "verdict", "environment", "rows", "schema")
        ]
        row = [
            *(*fixed, bool(a.verdict.get("ok")), a.producer, list(a.inputs)),
            *(canonical_json(a.document["parameters"]), canonical_json(a.document["serve"])),
            *(len(_serves(a, by_seal)) or None, *texts),
        ]
        rows.append(row)
    if rows:  # column by column in one statement: a statement a row takes many times as long
        columns = ", ".join(f"unnest(?::{kind}[])" for kind in _TYPE.findall(_ARTIFACTS_DDL))
        connection.execute(
            f"INSERT INTO artifacts SELECT {columns}", [list(c) for c in zip(*rows, strict=True)]
        )


def _serves(artifact: Artifact, known: Mapping[str, Artifact]) -> set[str]:
    """The serves that an artifact and the inputs of its inputs saw; inputs that are gone add none."""
    found: set[str] = set()
    waiting, seen = [artifact], {artifact.seal}
    while waiting:
        one = waiting.pop()
        if serve := one.document["serve"]:
            found.add(str(serve.get("id") or canonical_json(serve)))
        inputs = [known[seal] for seal in one.inputs if seal in known and seal not in seen]
        seen.update(each.seal for each in inputs)
        waiting += inputs
    return found
