"""Sealing: digest, build the file, read it back, publish it, chain it. One artifact, or nothing."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from k3repro.errors import ArtifactCorrupt, InputError, StoreError
from k3repro.observed import SIMULATED
from k3repro.store._artifact import Artifact
from k3repro.store._canonical import FORMAT, seal_digest
from k3repro.store._derive import payload_digest
from k3repro.store._duck import write_file
from k3repro.store._environment import environment
from k3repro.store._files import disk_errors, file_sha256, locked, publish
from k3repro.store._moved import current_producer
from k3repro.store._schema import Header, Schema, canonical_json
from k3repro.store._tier import OBSERVED, TWIN_MARK, basis_of, tier_of
from k3repro.store._vectors import Batch

if TYPE_CHECKING:
    from k3repro.store._store import Store

_LEDGER_FIELDS = ("data", "name", "subject", "tier", "basis", "run_id", "clock", "inputs")


@dataclass(frozen=True, slots=True)
class Draft:
    """All that goes into an artifact, before its digests."""

    header: Header
    schema: Schema
    code: str
    run_id: str
    serve: Mapping[str, Any]
    payload: Mapping[str, Batch]
    verdict: Mapping[str, Any]
    work: Path
    observed: frozenset[str] = frozenset()


def publish_draft(store: Store, draft: Draft) -> Artifact:
    """Seal a draft, or return the artifact that already holds the same data under the same identity."""
    document = _document(store, draft)
    with locked(store.root / ".wip" / "seal.lock"):
        artifact = _existing(store, document) or _sealed(store, draft, document)
    write_receipt(artifact)
    return artifact


def _document(store: Store, draft: Draft) -> dict[str, Any]:
    header = draft.header
    tier, basis = _tier(store, draft)
    return {
        "format": FORMAT,
        "name": header.name,
        "subject": header.subject,
        "kind": header.kind,
        "tier": tier,
        "basis": basis,
        "clock": header.clock,
        "run_id": draft.run_id,
        "producer": header.producer,
        "code": draft.code,
        "parameters": header.parameters,
        "inputs": list(header.inputs),
        "serve": draft.serve,
        "citation": header.citation,
        "verdict": draft.verdict,
        "environment": store.redactor.value(environment()),
        "schema": draft.schema.as_json(),
        "rows": {t.name: len(draft.payload[t.name][t.key[0]]) for t in draft.schema.tables},
        "data": payload_digest(draft.schema, draft.payload),
        **({"observed": sorted(draft.observed)} if draft.observed else {}),
    }


def _tier(store: Store, draft: Draft) -> tuple[str, str]:
    header = draft.header
    if header.kind in ("probe", "bring-up"):
        marked = SIMULATED in draft.observed or _marked(draft.payload)
        tier = SIMULATED if marked else tier_of(draft.serve)
        return tier, tier
    if header.kind == "transcription":
        tier = _cited_tier(header.citation)
        return tier, tier
    return "derived", basis_of((store.find(seal).basis for seal in header.inputs), draft.observed)


def _cited_tier(citation: Mapping[str, Any]) -> str:
    if citation.get("document"):
        return "published"
    if citation.get("recipe") or citation.get("spec"):
        return "config"
    raise InputError(
        "a transcription cites nothing", fix="Give citation={'document': ..., 'sha256': ..., 'locator': ...}."
    )


def _marked(payload: Mapping[str, Batch]) -> bool:
    """Whether the twin's mark came back in a stream: it survives a proxy that hides every address."""
    vectors = (
        v
        for batch in payload.values()
        for name, v in batch.items()
        if "fingerprint" in name and v.type == "VARCHAR"
    )
    return any(TWIN_MARK in str(text).lower() for v in vectors for text in np.unique(v.leaf))


def _existing(store: Store, document: Mapping[str, Any]) -> Artifact | None:
    state = store.state()
    entries = [
        e
        for e in state.seals.values()
        if e.body.get("data") == document["data"] and e.body.get("name") == document["name"]
    ]
    for entry in reversed(entries):
        artifact = store._artifact(entry)
        if not artifact.path.is_file() or not _same(artifact.document, document):
            continue
        if why := state.withdrawn().get(entry.seal):
            raise StoreError(
                f"the same data was withdrawn: {why}",
                where=f"{artifact.name}@{artifact.subject}",
                fix="Correct its cause first.",
            )
        if entry.seal in state.superseded:
            _chain(store, artifact, entry.body["file_sha256"], entry.body["bytes"])
        return artifact
    return None


def _same(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Everything that a reader relies on is equal; environment, code and run may differ."""
    skipped = {"environment", "code", "run_id", "serve", "format", "schema", "producer"}
    same = current_producer(str(old.get("producer"))) == current_producer(new["producer"])
    return same and all(old.get(k) == new[k] for k in new if k not in skipped)


def _sealed(store: Store, draft: Draft, document: Mapping[str, Any]) -> Artifact:
    text = canonical_json(document)
    seal = seal_digest(text)
    path = store.root / draft.header.name / f"{_slug(draft.header.subject)}-{seal[:12]}.duckdb"
    with _workspace(draft.work) as work:
        temporary = work / "artifact.duckdb"
        write_file(temporary, draft.schema, draft.payload, seal, text)
        if Artifact(temporary, seal).recount() != document["data"]:
            raise ArtifactCorrupt(
                "the file does not read back as written",
                where=str(temporary),
                fix="Report this: the run is kept.",
            )
        sha256, size = file_sha256(temporary), temporary.stat().st_size
        publish(temporary, path)
    artifact = Artifact(path, seal)
    _chain(store, artifact, sha256, size)
    return artifact


def _chain(store: Store, artifact: Artifact, sha256: str, size: int) -> None:
    document = artifact.document
    body = {"seal": artifact.seal, **{name: document[name] for name in _LEDGER_FIELDS}}
    body |= {"file": artifact.path.relative_to(store.root).as_posix(), "file_sha256": sha256, "bytes": size}
    body |= {
        "artifact_kind": document["kind"],
        "rows": document["rows"],
        "verdict_ok": bool(document["verdict"].get("ok")),
        "producer": document["producer"],
    }
    body["supersedes"] = [old.seal for old in _replaced(store, artifact)]
    store.ledger.append("seal", body)


def _replaced(store: Store, artifact: Artifact) -> Iterator[Artifact]:
    """Current artifacts whose place this one takes: the same producer, subject and parameters, made again."""
    if artifact.tier in OBSERVED:
        return
    for old in store.artifacts(artifact.name, artifact.subject):
        same = current_producer(old.producer) == current_producer(artifact.producer) and all(
            old.document[k] == artifact.document[k] for k in ("kind", "parameters", "tier")
        )
        if same and old.seal != artifact.seal:
            yield old


@contextmanager
def _workspace(folder: Path) -> Iterator[Path]:
    shutil.rmtree(folder, ignore_errors=True)
    with disk_errors(folder):
        folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _slug(subject: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", subject.lower()).strip("-")[:60] or "subject"


def write_receipt(artifact: Artifact) -> None:
    """Append a line to the file that $K3REPRO_RECEIPTS names, for the pipeline stage that is running."""
    target = os.environ.get("K3REPRO_RECEIPTS")
    if not target:
        return
    receipt = {k: artifact.document[k] for k in ("name", "subject", "data", "inputs")} | {
        "seal": artifact.seal
    }
    with disk_errors(Path(target)):
        handle = os.open(target, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(handle, (json.dumps(receipt, sort_keys=True) + "\n").encode())
        finally:
            os.close(handle)
