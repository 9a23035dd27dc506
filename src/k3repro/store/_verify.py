"""Verification: every file, digest, ledger entry and derivation, and what is wrong with it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from k3repro.errors import ArtifactCorrupt, InputError, K3Error, StoreError
from k3repro.store._artifact import Artifact, digest_of, read_document
from k3repro.store._canonical import seal_digest
from k3repro.store._derive import recompute
from k3repro.store._duck import attached, connect_memory
from k3repro.store._files import file_sha256, write_atomic
from k3repro.store._findings import RESTORE, Finding
from k3repro.store._foreign import Held, foreign_objects, held
from k3repro.store._ledger import KINDS, Entry, is_entry_file
from k3repro.store._prune import removal_findings
from k3repro.store._schema import Schema
from k3repro.store._state import State
from k3repro.store._tier import basis_of, tier_of

if TYPE_CHECKING:
    from k3repro.store._store import Store

_GROUP = 64
MANY_DERIVATIONS = 20  # from here on processes are worth their start
_STORES: dict[Path, Store] = {}  # of a process that recomputes
_MIRRORED = ("data", "name", "subject", "tier", "basis", "run_id", "clock", "inputs", "rows")


def verify_store(store: Store, *, full: bool = False, known_heads: Iterable[str] = ()) -> list[Finding]:
    """All findings about a store, the ledger's first. Unchanged files are skipped unless `full`."""
    findings = list(_ledger_findings(store))
    findings += _head_findings(store, known_heads)
    state = store.state()
    seals = state.seals
    findings += _stray_files(store, seals)
    findings += _reference_findings(store, seals)
    findings += removal_findings(state)
    cache = {} if full else _load_cache(store)
    stamps = {seal: _stamp(store, entry) for seal, entry in seals.items()}
    fresh = {seal: stamp for seal, stamp in stamps.items() if stamp is not None and cache.get(seal) == stamp}
    unread = [entry for seal, entry in seals.items() if seal not in fresh and not _left(store, state, entry)]
    for entry, wrong in _examined(store, unread):
        findings += wrong
        stamp = stamps[entry.seal]
        if not wrong and stamp is not None and stamp == _stamp(store, entry):
            fresh[entry.seal] = stamp
    with contextlib.suppress(StoreError):
        write_atomic(_cache_path(store), json.dumps(fresh, sort_keys=True).encode())
    return findings


def _left(store: Store, state: State, entry: Entry) -> bool:
    """Whether the file is gone as the ledger says it is."""
    with contextlib.suppress(ArtifactCorrupt):
        return entry.seal in state.removed and not _file(store, entry).exists()
    return False


def _cache_path(store: Store) -> Path:
    return store.root / ".cache" / "verified.json"


def _load_cache(store: Store) -> dict[str, list[Any]]:
    try:
        value = json.loads(_cache_path(store).read_bytes())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _stamp(store: Store, entry: Entry) -> list[Any] | None:
    """What identifies a file's state without reading it, tied to the ledger entry that vouches for it."""
    try:
        stat = _file(store, entry).stat()
    except (OSError, ArtifactCorrupt):
        return None
    return [entry.id, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size, stat.st_ino]


def _file(store: Store, entry: Entry) -> Path:
    relative = Path(str(entry.body.get("file", "")))
    if relative.is_absolute() or ".." in relative.parts or relative.suffix != ".duckdb":
        raise ArtifactCorrupt(f"ledger entry names file {str(relative)!r}", where=entry.id)
    return store.root / relative


def _ledger_findings(store: Store) -> Iterator[Finding]:
    folder, entries = store.ledger.folder, store.ledger.entries()
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        where = f"ledger/{path.name}"
        if path.suffix != ".json":
            if not path.name.startswith("."):
                yield Finding("ledger-stray", where, "not a ledger entry", "Remove it.")
            continue
        if not is_entry_file(path):
            yield Finding("ledger-stray", where, "not a file of an entry's size", "Remove it.")
            continue
        data = path.read_bytes()
        if hashlib.sha256(data).hexdigest() != path.stem:
            yield Finding(
                "ledger-changed", where, "the entry's bytes do not give its name", "Restore it from git."
            )
        elif path.stem not in entries:
            yield Finding("ledger-unreadable", where, "not a ledger entry", "Restore it from git.")
    entries = store.ledger.entries()
    for entry in entries.values():
        if entry.kind not in KINDS:
            yield Finding("ledger-kind", f"ledger/{entry.id}.json", f"unknown kind {entry.kind!r}")
        for parent in entry.parents:
            if parent not in entries:
                yield Finding(
                    "ledger-missing",
                    f"ledger/{parent}.json",
                    f"missing; entry {entry.id[:12]} names it as a parent",
                    "Restore it from git.",
                )


def _head_findings(store: Store, known_heads: Iterable[str]) -> Iterator[Finding]:
    entries = store.ledger.entries()
    for head in known_heads:
        if head not in entries:
            yield Finding(
                "ledger-rewritten",
                f"ledger/{head}.json",
                "known elsewhere as a head of this ledger, and gone from it",
                "Restore the ledger that was published, and append to it instead.",
            )


def _stray_files(store: Store, seals: Mapping[str, Entry]) -> Iterator[Finding]:
    known = {str(entry.body.get("file")) for entry in seals.values()}
    for path in sorted(store.root.rglob("*.duckdb*")) if store.root.is_dir() else ():
        relative = path.relative_to(store.root)
        if any(part.startswith(".") for part in relative.parts) or relative.as_posix() in known:
            continue
        yield Finding(
            "file-unknown",
            relative.as_posix(),
            "no ledger entry seals this file",
            "Remove it, or restore its ledger entry from git.",
        )


def _reference_findings(store: Store, seals: Mapping[str, Entry]) -> Iterator[Finding]:
    state = store.state()
    named = [(seal, "supersession") for seal in state.superseded] + [
        (seal, "retraction") for seal in state.retracted
    ]
    named += [
        (source, f"artifact {seal[:12]}")
        for seal, entry in seals.items()
        for source in entry.body.get("inputs", ())
    ]
    for seal, who in named:
        if seal not in seals:
            yield Finding(
                "reference-missing", who, f"names artifact {seal[:12]}, which the ledger does not have"
            )


def _examined(store: Store, entries: Sequence[Entry]) -> Iterator[tuple[Entry, list[Finding]]]:
    """Every entry with what is wrong with its file; files are attached to one connection, in groups."""
    with connect_memory() as connection:
        for low in range(0, len(entries), _GROUP):
            group = entries[low : low + _GROUP]
            with contextlib.ExitStack() as stack:
                wrong = {e.seal: _attach(store, e, f"f{i}", connection, stack) for i, e in enumerate(group)}
                known = held(connection)
                for i, entry in enumerate(group):
                    if not wrong[entry.seal]:
                        wrong[entry.seal] = _contents(store, entry, f"f{i}", connection, known)
            yield from ((entry, wrong[entry.seal]) for entry in group)


def _attach(
    store: Store, entry: Entry, name: str, connection: duckdb.DuckDBPyConnection, stack: contextlib.ExitStack
) -> list[Finding]:
    """Attach the file when its bytes are the sealed ones; others are not given to DuckDB at all."""
    where = str(entry.body.get("file"))
    try:
        path = _file(store, entry)
        if not path.is_file():
            return [Finding("file-missing", where, f"sealed as {entry.seal[:12]} and gone")]
        if file_sha256(path) != entry.body.get("file_sha256"):
            return [Finding("file-changed", where, "the file's bytes are not the sealed ones")]
        stack.enter_context(attached(connection, path, name))
    except (StoreError, OSError) as error:
        return [_corrupt(where, error)]
    return []


def _contents(
    store: Store, entry: Entry, name: str, connection: duckdb.DuckDBPyConnection, known: Mapping[str, Held]
) -> list[Finding]:
    where = str(entry.body.get("file"))
    try:
        return list(_content_findings(store, entry, name, connection, known))
    except (K3Error, duckdb.Error, KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        return [_corrupt(where, error)]


def _corrupt(where: str, error: Exception) -> Finding:
    if isinstance(error, K3Error):
        return Finding("artifact-corrupt", where, error.what, error.fix or RESTORE)
    what = f"not readable: {type(error).__name__}: {' '.join(str(error).split())[:200]}"
    return Finding("artifact-corrupt", where, what)


def _content_findings(
    store: Store, entry: Entry, name: str, connection: duckdb.DuckDBPyConnection, known: Mapping[str, Held]
) -> Iterator[Finding]:
    where, source = str(entry.body.get("file")), f"{name}."
    text, document = read_document(connection, _file(store, entry), source)
    if (seal := seal_digest(text)) != entry.seal:
        yield Finding("seal-differs", where, f"holds seal {seal[:12]}, the ledger says {entry.seal[:12]}")
    for field in _MIRRORED:
        if document[field] != entry.body.get(field):
            what = f"{field} is {document[field]!r} in the file, {entry.body.get(field)!r} in the ledger"
            yield Finding("ledger-differs", where, what)
    schema = Schema.from_json(document["schema"])
    for what in foreign_objects(schema, known.get(name, Held())):
        yield Finding("file-foreign", where, what)
    if (data := digest_of(connection, schema, _file(store, entry), source)) != document["data"]:
        what = f"rows give data digest {data[:12]}, sealed was {document['data'][:12]}"
        yield Finding("data-differs", where, what)
    for what in _tier_findings(store, document):
        yield Finding("tier-wrong", where, what, "Retract it with a reason.")


def _tier_findings(store: Store, document: Mapping[str, Any]) -> Iterator[str]:
    tier, basis, kind = document["tier"], document["basis"], document["kind"]
    if kind in ("probe", "bring-up"):
        evidence = tier_of(document["serve"])
        # The mark may have come back in the streams only, so `simulated` needs no mark in the serve facts.
        if tier not in (evidence, "simulated"):
            yield f"says {tier}, its evidence says {evidence}"
    elif kind == "transcription" and tier not in ("published", "config"):
        yield f"a transcription cannot be {tier}"
    elif kind in ("derivation", "audit"):
        seals = store.state().seals
        inputs = (str(seals[seal].body["basis"]) for seal in document["inputs"] if seal in seals)
        wanted = basis_of(inputs, document.get("observed", ()))
        if (tier, basis) != ("derived", wanted):
            yield f"says {tier} from {basis}, its inputs say derived from {wanted}"


def recompute_store(store: Store, packages: Sequence[str] | None = None) -> list[Finding]:
    """Run every current derivation again. Findings: rows that differ, and derivations that cannot be run."""
    derived = [artifact for artifact in store.artifacts() if artifact.kind == "derivation"]
    cores = os.cpu_count() or 1
    if len(derived) < MANY_DERIVATIONS or cores < 2:
        found = [_recomputed(store, artifact, packages) for artifact in derived]
    else:
        # The largest first: it tends to take longest, and one that starts last would run alone.
        by_size = sorted(derived, key=lambda artifact: artifact.path.stat().st_size, reverse=True)
        with ProcessPoolExecutor(cores, mp_context=get_context("spawn")) as executor:
            running = {
                artifact.seal: executor.submit(
                    _recomputed_elsewhere, (type(store), store.root, artifact.seal, packages)
                )
                for artifact in by_size
            }
            found = [running[artifact.seal].result() for artifact in derived]
    return [finding for finding in found if finding is not None]


def _recomputed_elsewhere(work: tuple[type[Store], Path, str, Sequence[str] | None]) -> Finding | None:
    """The same in a process of its own, for an artifact by its seal."""
    kind, root, seal, packages = work
    store = _STORES.setdefault(root, kind(root))
    return _recomputed(store, store.find(seal), packages)


def _recomputed(store: Store, artifact: Artifact, packages: Sequence[str] | None) -> Finding | None:
    where = artifact.path.relative_to(store.root).as_posix()
    try:
        wrong = recompute(artifact, [store.find(seal) for seal in artifact.inputs], packages)
    except (InputError, StoreError) as error:
        what = f"cannot be recomputed, so it is not citable: {error.what}"
        return Finding("not-citable", where, what, "Give it a producer in the package, or retract it.")
    if wrong is None:
        return None
    return Finding(
        "recompute-differs",
        where,
        f"its producer gives other rows: {wrong}",
        "Retract it, and derive it again.",
    )
