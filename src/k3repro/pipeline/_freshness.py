"""Why a stage has to run, or need not: its fingerprint now against the record of its last good run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from k3repro.errors import ArtifactMissing, PipelineError
from k3repro.pipeline._codes import Codes
from k3repro.pipeline._files import write_atomic
from k3repro.pipeline._inputs import file_digests
from k3repro.pipeline._job import Receipt
from k3repro.pipeline._source import Source
from k3repro.pipeline._spec import EVERYTHING, Pipeline, Stage
from k3repro.store import Artifact, Store

FRESH, STALE, WAITS, PRESERVED = "fresh", "stale", "waits", "preserved"


@dataclass(frozen=True)
class Fingerprint:
    """Everything a stage's result depends on.

    `inputs` maps name@subject to seal, "" where none exists; `files` a path of the project to its SHA-256.
    """

    notebook: str
    parameters: Mapping[str, Any]
    inputs: Mapping[str, str]
    code: Mapping[str, str]
    seals: tuple[str, ...]
    files: Mapping[str, str] = field(default_factory=dict)

    def differences(self, old: Mapping[str, Any]) -> list[str]:
        """What changed since the record `old`, one phrase each, in a fixed order."""
        said = [] if old.get("notebook") == self.notebook else ["the notebook's source changed"]
        said += _changes("parameter", old.get("parameters", {}), self.parameters, lambda value: repr(value))
        said += _changes(
            "input", old.get("inputs", {}), self.inputs, lambda value: str(value)[:12] or "missing"
        )
        said += _file_changes(old.get("files", {}), self.files)
        changed = [name for name, digest in self.code.items() if old.get("code", {}).get(name) != digest]
        said += [f"code of {name} changed" for name in changed]
        if [*old.get("seals", ())] != [*self.seals]:
            said.append("the list of seals changed")
        return said


@dataclass(frozen=True)
class Judgement:
    """`state` is fresh, stale, waits (for an upstream stage that will run) or preserved (measured)."""

    state: str
    reasons: tuple[str, ...] = ()
    seals: tuple[str, ...] = field(default=())

    @property
    def runs(self) -> bool:
        """Whether the stage has to run as things stand."""
        return self.state == STALE


class Freshness:
    """Fingerprints and records of one pipeline against one store; records are a local cache."""

    def __init__(self, pipeline: Pipeline, store: Store) -> None:
        self.pipeline = pipeline
        self.store = store
        self.records = Path(store.root) / ".cache" / "pipeline" / pipeline.name
        self.codes = Codes(Path(store.root) / ".cache" / "pipeline" / "codes.json")
        self.executed = pipeline.root / "notebooks" / ".executed" / pipeline.name

    def fingerprint(self, stage: Stage, source: Source) -> Fingerprint:
        """The stage's fingerprint at this moment."""
        return Fingerprint(
            notebook=source.digest,
            parameters=dict(stage.parameters),
            inputs={item: self.seal_of(item) for item in stage.inputs},
            code={name: self._code(stage, name) for name in stage.code},
            seals=stage.seals,
            files=file_digests(self.pipeline, stage),
        )

    def judge(self, stage: Stage, source: Source) -> Judgement:
        """Fresh, stale or preserved, as if all upstream stages were done."""
        kept = self._measured(stage)
        if kept:
            return Judgement(PRESERVED, (f"measured; run again only with --remeasure {stage.name}",), kept)
        record = self.record(stage)
        if record is None:
            return Judgement(STALE, ("it has not run here yet",))
        reasons = self.fingerprint(stage, source).differences(record["fingerprint"])
        reasons = [self._blame(stage, reason, record) for reason in reasons]
        reasons += self._lost(stage, record)
        seals = tuple(item["seal"] for item in record["seals"])
        return Judgement(STALE if reasons else FRESH, tuple(reasons), seals)

    def keep(self, stage: Stage, now: Fingerprint, receipts: tuple[Receipt, ...], executed: bytes) -> None:
        """Record a good run; atomic, so a kill leaves the old record or the new one."""
        record = {
            "fingerprint": asdict(now),
            "sources": self._sources(stage),
            "seals": [asdict(receipt) for receipt in receipts],
            "executed": hashlib.sha256(executed).hexdigest(),
        }
        write_atomic(self._record_path(stage), json.dumps(record, sort_keys=True, indent=1).encode())

    def record(self, stage: Stage) -> dict[str, Any] | None:
        """The record of the last good run; None when there is none or it is not readable."""
        try:
            record = json.loads(self._record_path(stage).read_bytes())
        except (OSError, ValueError):
            return None
        return record if isinstance(record, dict) and "fingerprint" in record else None

    def seal_of(self, item: str) -> str:
        """The current seal of name@subject, "" when there is none; for `*` a digest over all.

        What a stage here seals is taken from its last good run: a later stage may seal more under that name
        (the gates of fresh serves), and those are not what the first one made.
        """
        if item == EVERYTHING:
            seals = sorted(artifact.seal for artifact in self.store.artifacts())
            return hashlib.sha256("\n".join(seals).encode()).hexdigest()
        try:
            return self._made_here(item) or str(self.store.find(item).seal)
        except ArtifactMissing:
            return ""

    def _made_here(self, item: str) -> str:
        """What the first stage that declares `item` sealed last, as far as it still stands."""
        stage = next((stage for stage in self.pipeline.stages if item in stage.seals), None)
        record = self.record(stage) if stage else None
        labels = {item, self.store.redactor.text(item)}
        made = [
            one["seal"]
            for one in (record or {}).get("seals", ())
            if f"{one['name']}@{one['subject']}" in labels
        ]
        current = {artifact.seal for artifact in self.store.artifacts()} if made else set()
        return next((str(seal) for seal in reversed(made) if seal in current), "")

    def executed_path(self, stage: Stage) -> Path:
        """Where the executed notebook of a stage lies."""
        return self.executed / f"{stage.name}.ipynb"

    def sweep(self) -> None:
        """Remove what stages left that the pipeline no longer has: their notebooks would stay pages."""
        names = {stage.name for stage in self.pipeline.stages}
        for path in [*self.executed.glob("*.ipynb"), *self.records.glob("*.json")]:
            if path.name.removesuffix(path.suffix).removesuffix(".failed") not in names:
                path.unlink(missing_ok=True)

    def _record_path(self, stage: Stage) -> Path:
        return self.records / f"{stage.name}.json"

    def _blame(self, stage: Stage, reason: str, record: Mapping[str, Any]) -> str:
        """Name the files behind "code of X changed": a person looks there first."""
        if not reason.startswith("code of "):
            return reason
        now, old = self._sources(stage), record.get("sources", {})
        touched = sorted(name for name in {*now, *old} if now.get(name) != old.get(name))
        return (
            f"{reason} (in {', '.join(touched[:3])}{', ...' if len(touched) > 3 else ''})"
            if touched
            else reason
        )

    def _lost(self, stage: Stage, record: Mapping[str, Any]) -> list[str]:
        said = []
        current = {artifact.seal: artifact for artifact in self.store.artifacts()}
        for item in record["seals"]:
            if item["seal"] not in current:
                label = f"{item['name']}@{item['subject']} {item['seal'][:12]}"
                said.append(f"artifact {label} was withdrawn or replaced")
            elif not Path(current[item["seal"]].path).exists():
                said.append(f"the file of {item['name']}@{item['subject']} is gone")
        path = self.executed_path(stage)
        if not path.exists():
            said.append("the executed notebook is missing")
        elif hashlib.sha256(path.read_bytes()).hexdigest() != record["executed"]:
            said.append("the executed notebook was edited")
        return said

    def _measured(self, stage: Stage) -> tuple[str, ...]:
        """Seals of a stage whose artifacts all exist and are measured: it never goes stale by itself."""
        measured = {artifact.seal for artifact in self.store.artifacts(tier="measured")}
        found = [self._find(item) for item in stage.seals] if measured else []
        kept = [artifact for artifact in found if artifact is not None and artifact.seal in measured]
        return (
            tuple(str(artifact.seal) for artifact in kept) if kept and len(kept) == len(stage.seals) else ()
        )

    def _find(self, item: str) -> Artifact | None:
        try:
            return self.store.find(item)
        except ArtifactMissing:
            return None

    def _code(self, stage: Stage, name: str) -> str:
        digest = self.codes.hash_of(name)
        if not digest:
            where = f"{self.pipeline.path}: stage {stage.name!r}: code"
            raise PipelineError(
                f"no module {name!r}", where=where, fix="Give a module of k3repro by full name."
            )
        return digest

    def _sources(self, stage: Stage) -> dict[str, str]:
        return {name: digest for module in stage.code for name, digest in self.codes.sources(module).items()}


def _file_changes(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    said = [f"file {name} changed" for name in new if name in old and old[name] != new[name]]
    said += [f"file {name} is new" for name in new if name not in old]
    return said + [f"file {name} was removed" for name in old if name not in new]


def _changes(kind: str, old: Mapping[str, Any], new: Mapping[str, Any], show: Any) -> list[str]:
    said = []
    for name in sorted({*old, *new}):
        before, after = old.get(name), new.get(name)
        if name not in new:
            said.append(f"{kind} {name} was removed")
        elif name not in old:
            said.append(f"{kind} {name} is new")
        elif before != after:
            said.append(f"{kind} {name}: {show(before)} -> {show(after)}")
    return said
