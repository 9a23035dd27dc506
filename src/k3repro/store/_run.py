"""A run: appends waves to its log, then seals one artifact."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from k3repro.errors import InputError, StoreError
from k3repro.observed import Watch
from k3repro.store._code import code_hash
from k3repro.store._files import disk_errors, write_atomic
from k3repro.store._policy import as_time, row_values
from k3repro.store._rows import Row, as_rows
from k3repro.store._schema import Header, Schema, canonical_json, plain
from k3repro.store._segments import NAME, append_segment, read_segments
from k3repro.store._vectors import Batch, sorted_batch

if TYPE_CHECKING:
    from k3repro.store._artifact import Artifact
    from k3repro.store._redact import Redactor


def identity_of(header: Header) -> dict[str, Any]:
    """What makes two runs the same one: name, subject, kind, producer, parameters, inputs."""
    return {
        "name": header.name, "subject": header.subject, "kind": header.kind, "producer": header.producer,
        "parameters": header.parameters, "inputs": list(header.inputs),
    }  # fmt: skip


def identity_hash(identity: Mapping[str, Any]) -> str:
    """A short name for an identity."""
    return sha256(canonical_json(identity).encode()).hexdigest()[:16]


class Run:
    """Waves committed so far survive kill -9; `begin` with the same header resumes after them."""

    def __init__(
        self,
        root: Path,
        redactor: Redactor,
        header: Header,
        schema: Schema,
        publish: Callable[[Run, Mapping[str, Any]], Artifact],
    ) -> None:
        self._root, self._redactor, self._publish = root, redactor, publish
        self._watch = Watch()
        self._seen = frozenset[str]()  # by the processes that began this run
        self.header = header
        self.schema = schema
        self.serve: dict[str, Any] = dict(header.serve)
        self.code = code_hash(header.producer.partition(":")[0])
        self.folder = root / ".wip" / f"{header.name}-{identity_hash(identity_of(header))}"
        self._waves: list[str] = []
        self._columns: dict[str, dict[str, list[Any]]] = {
            t.name: {c.name: [] for c in t.columns} for t in schema.tables
        }
        self._keys: dict[str, set[tuple[Any, ...]]] = {t.name: set() for t in schema.tables}
        self._end = 0
        self._lock = self._acquire()
        self._start()

    @property
    def waves(self) -> tuple[str, ...]:
        """Names of the waves committed so far, in order."""
        return tuple(self._waves)

    @property
    def observed(self) -> frozenset[str]:
        """What was seen while this run was open (`k3repro.observed`), here or before it was resumed."""
        return self._seen | self._watch.seen()

    def commit(self, wave: str, tables: Mapping[str, Sequence[Mapping[str, Any] | Row]]) -> None:
        """Append the rows of one wave as one fsynced segment; all of it is kept, or none.

        Raises:
            InputError: a wave committed before, an unknown table or column, a refused value, a repeated key.
            StoreError: the disk is full; what was committed before is kept.
        """
        self._require_open()
        where = f"{self.header.name} wave {wave!r}"
        plain([wave], where)
        if wave in self._waves:
            raise InputError(
                "this wave is already committed", where=where, fix="Skip the names in run.waves."
            )
        # Facts first: the node names in them are then known when the rows are redacted.
        serve = self._redactor.value(plain(self.serve, f"serve facts of {self.header.name}"))
        columns = {name: self._canonical(name, rows, where) for name, rows in tables.items()}
        seen = {"observed": sorted(self.observed)} if self.observed else {}
        self._append({"wave": wave, "tables": columns, "serve": serve, **seen})
        self._adopt(wave, columns)

    def rows(self, table: str) -> list[dict[str, Any]]:
        """The rows committed so far, in the order of their waves."""
        columns = {
            c.name: self._columns[self.schema.table(table).name][c.name]
            for c in self.schema.table(table).columns
        }
        times = {c.name: c.is_list for c in self.schema.table(table).columns if c.scalar == "TIMESTAMP"}
        rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
        return [{k: _shown(v, times.get(k)) for k, v in row.items()} for row in rows] if times else rows

    def seal(self, verdict: Mapping[str, Any] | None = None) -> Artifact:
        """Build, digest and publish the artifact; unchanged data returns the artifact that exists.

        Raises:
            StoreError: the disk is full or an input is withdrawn; the run is kept and can be resumed.
        """
        self._require_open()
        artifact = self._publish(self, {"ok": True, "reasons": [], **plain(dict(verdict or {}), "verdict")})
        self._discard()
        return artifact

    def quarantine(self, reason: str) -> Path:
        """Set the run aside: kept to be looked at, never selected, never resumed. Returns the folder."""
        self._require_open()
        write_atomic(
            self.folder / "quarantine.json", json.dumps({"reason": reason}, ensure_ascii=False).encode()
        )
        target = _free(self._root / ".quarantine" / self.folder.name)
        with disk_errors(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            self.folder.rename(target)
        self.close()
        return target

    def close(self) -> None:
        """Let go of the run without sealing; it can be resumed."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def payload(self) -> dict[str, Batch]:
        """All rows as vectors in key order."""
        return {t.name: sorted_batch(self._columns[t.name], t, self.header.name) for t in self.schema.tables}

    def _canonical(
        self, name: str, rows: Sequence[Mapping[str, Any] | Row], where: str
    ) -> dict[str, list[Any]]:
        table = self.schema.table(name)
        values = [row_values(row, table, where) for row in as_rows(rows)]
        if self.header.kind in ("probe", "bring-up"):
            redact = self._redactor.text
            texts = [i for i, c in enumerate(table.columns) if c.type == "VARCHAR"]
            for row in values:
                for i in texts:
                    if row[i]:
                        row[i] = redact(row[i])
        columns = {c.name: [row[i] for row in values] for i, c in enumerate(table.columns)}
        keys = list(zip(*(columns[k] for k in table.key), strict=True))
        repeated = next((k for k in keys if k in self._keys[name]), None) or _repeated(keys)
        if repeated is not None:
            raise InputError(
                f"a second row with key {repeated!r}",
                where=f"{where} {name}",
                fix=f"The key is {list(table.key)}.",
            )
        return columns

    def _adopt(self, wave: str, columns: Mapping[str, Mapping[str, list[Any]]]) -> None:
        self._waves.append(wave)
        for name, values in columns.items():
            self._keys[name].update(zip(*(values[k] for k in self.schema.table(name).key), strict=True))
            for column, items in values.items():
                self._columns[name][column].extend(items)

    def _append(self, value: Mapping[str, Any]) -> None:
        self._end = append_segment(self.folder / NAME, value, self._end)

    def _acquire(self) -> int:
        with disk_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.pread(handle, 20, 0).decode(errors="replace").strip()
            os.close(handle)
            raise StoreError(
                f"process {holder or '?'} is writing this run",
                where=str(self.folder),
                fix="Wait for it, or end it.",
            ) from None
        os.truncate(handle, 0)
        os.pwrite(handle, str(os.getpid()).encode(), 0)
        return handle

    def _start(self) -> None:
        """Resume the log if there is one of this very run; set aside one that cannot be resumed."""
        segments, self._end = read_segments(self.folder / NAME)
        identity = identity_of(self.header)
        opening = {"identity": identity, "schema": self.schema.as_json(), "code": self.code}
        if segments and any(segments[0].get(k) != v for k, v in opening.items()):
            changed = [k for k, v in opening.items() if segments[0].get(k) != v]
            self.quarantine(f"cannot be resumed: {', '.join(changed)} changed since it began")
            self._lock, self._end, segments = self._acquire(), 0, []
        if not segments:
            nonce = secrets.token_hex(8) if self.header.clock == "wall" else ""
            self.run_id = (
                f"{self.header.name}-{identity_hash({**identity, 'code': self.code, 'nonce': nonce})}"
            )
            self._append({"format": 1, "run_id": self.run_id, **opening})
            return
        self.run_id = str(segments[0]["run_id"])
        for segment in segments[1:]:
            self.serve = {**self.serve, **segment["serve"]}
            self._seen |= frozenset(segment.get("observed", ()))
            self._adopt(segment["wave"], segment["tables"])

    def _discard(self) -> None:
        for path in (self.folder / NAME, self.folder / "lock"):
            path.unlink(missing_ok=True)
        for path in self.folder.iterdir():
            path.unlink()
        self.folder.rmdir()
        self.close()

    def _require_open(self) -> None:
        if self._lock < 0:
            raise StoreError(
                f"run {self.header.name} is closed", fix="Call store.begin again; committed waves are kept."
            )


def _shown(value: Any, is_list: bool | None) -> Any:
    if value is None or is_list is None:
        return value
    return [None if v is None else as_time(v) for v in value] if is_list else as_time(value)


def _repeated(keys: Sequence[tuple[Any, ...]]) -> tuple[Any, ...] | None:
    seen: set[tuple[Any, ...]] = set()
    for key in keys:
        if key in seen:
            return key
        seen.add(key)
    return None


def _free(path: Path) -> Path:
    """`path`, or the first of path-2, path-3... that is not taken."""
    candidate, i = path, 1
    while candidate.exists():
        i += 1
        candidate = path.with_name(f"{path.name}-{i}")
    return candidate
