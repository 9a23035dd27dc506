"""The artifact store: begin and seal runs, find artifacts, chain the ledger."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from k3repro.errors import ArtifactMissing, InputError, StoreError
from k3repro.store._artifact import Artifact
from k3repro.store._code import code_hash
from k3repro.store._derive import Rows, bound_parameters, derivation_of, payload_of, produce
from k3repro.store._ledger import Entry, Ledger
from k3repro.store._prune import prunable, prune
from k3repro.store._redact import Redactor
from k3repro.store._rows import Row
from k3repro.store._run import Run, identity_hash, identity_of
from k3repro.store._schema import Header, Schema, plain
from k3repro.store._sealing import Draft, publish_draft
from k3repro.store._signing import sign_heads
from k3repro.store._state import State, Withdrawal

if TYPE_CHECKING:
    from k3repro.store._catalog import Catalog
    from k3repro.store._findings import Finding

_SEAL = re.compile(r"[0-9a-f]{6,64}\Z")


class Store:
    """A folder of sealed artifacts with its ledger.

    `root` defaults to $K3REPRO_ARTIFACTS, else the nearest `artifacts/` from the working directory upwards.
    """

    def __init__(self, root: Path | str | None = None) -> None:
        self.root = Path(root) if root is not None else _default_root()
        self.ledger = Ledger(self.root / "ledger")
        self._applied: tuple[object, State] = (None, State.of(()))

    def __repr__(self) -> str:
        return f"Store({str(self.root)!r})"

    @cached_property
    def redactor(self) -> Redactor:
        """Redacts what enters this store; its map of pseudonyms lies in the folder, outside git."""
        return Redactor(self.root / ".pseudonyms.json")

    # Producing

    def begin(self, header: Header, schema: Schema) -> Run:
        """Begin a run, or resume the one of the same identity that was interrupted.

        Raises:
            InputError: the subject of a probe or bring-up is an address; two users' localhost are two serves.
            StoreError: another process is writing this run.
        """
        if "://" in header.subject and header.kind in ("probe", "bring-up"):
            fix = "Name engine, version, model and hardware: vllm-0.26.0/kimi-k3@mi325x."
            raise InputError("a subject is a name, not an address", where=header.name, fix=fix)
        parameters = self.redactor.value(header.parameters)  # first: hosts it names are known from then on
        subject = self.redactor.text(header.subject)
        self._require_usable(header.inputs)
        header = dataclasses.replace(header, subject=subject, parameters=parameters)
        return Run(self.root, self.redactor, header, schema, self._publish)

    def derive(
        self,
        function: Callable[..., Rows],
        inputs: Sequence[Artifact | str],
        subject: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        verdict: Mapping[str, Any] | None = None,
    ) -> Artifact:
        """Run a producer declared with `@derivation` and seal what it returns.

        `subject` defaults to the one subject that all inputs share.
        """
        declared = derivation_of(function)
        artifacts = [self.find(item) if isinstance(item, str) else item for item in inputs]
        values = bound_parameters(function, parameters or {})
        header = Header(
            declared.name,
            subject or _shared_subject(artifacts),
            "derivation",
            declared.producer,
            values,
            [a.seal for a in artifacts],
        )
        self._require_usable(header.inputs)
        payload, seen = produce(function, artifacts, values)
        return self._seal_at_once(header, declared.schema, payload, verdict, seen)

    def transcribe(
        self,
        name: str,
        subject: str,
        citation: Mapping[str, Any],
        schema: Schema,
        rows: Rows | Sequence[Mapping[str, Any] | Row],
        parameters: Mapping[str, Any] | None = None,
    ) -> Artifact:
        """Seal rows copied from a document.

        `citation` names a ``document`` (tier published), ``recipe`` or ``spec`` (tier config), with
        ``sha256`` and ``locator`` where they exist. `rows` is {table: rows}, or just the rows
        when the schema has one table.
        """
        tables: Any = rows if isinstance(rows, Mapping) else {schema.tables[0].name: rows}
        header = Header(
            name, subject, "transcription", "k3repro.store:transcribe", parameters or {}, citation=citation
        )
        return self._seal_at_once(header, schema, payload_of(tables, schema, name))

    def _seal_at_once(
        self,
        header: Header,
        schema: Schema,
        payload: Any,
        verdict: Mapping[str, Any] | None = None,
        observed: frozenset[str] = frozenset(),
    ) -> Artifact:
        code = "" if header.kind == "transcription" else code_hash(header.producer.partition(":")[0])
        run_id = f"{header.name}-{identity_hash({**identity_of(header), 'code': code, 'nonce': ''})}"
        verdict = {"ok": True, "reasons": [], **plain(dict(verdict or {}), "verdict")}
        work = self.root / ".wip" / f".sealing-{os.getpid()}-{run_id}"
        serve = dict(header.serve)
        return publish_draft(
            self, Draft(header, schema, code, run_id, serve, payload, verdict, work, observed)
        )

    def _publish(self, run: Run, verdict: Mapping[str, Any]) -> Artifact:
        serve = self.redactor.value(plain(run.serve, f"serve facts of {run.header.name}"))
        work, seen = run.folder / "sealing", run.observed
        draft = Draft(run.header, run.schema, run.code, run.run_id, serve, run.payload(), verdict, work, seen)
        return publish_draft(self, draft)

    def _require_usable(self, inputs: Iterable[str]) -> None:
        withdrawn = self.withdrawn()
        for seal in inputs:
            self.find(seal)
            if seal in withdrawn:
                raise StoreError(
                    f"input {seal[:12]} is withdrawn",
                    where=str(withdrawn[seal]),
                    fix="Derive from artifacts that stand.",
                )

    # Finding

    def state(self) -> State:
        """The ledger applied in order."""
        entries = self.ledger.entries()  # the same object while no entry came or went
        if self._applied[0] is not entries:
            self._applied = entries, State.of(entries.values())
        return self._applied[1]

    def artifacts(
        self,
        name: str | None = None,
        subject: str | None = None,
        tier: str | None = None,
        current: bool = True,
    ) -> list[Artifact]:
        """Artifacts, oldest first, none whose file was removed; `current`: nor superseded or withdrawn."""
        state = self.state()
        entries = state.current() if current else list(state.seals.values())
        wanted = {"name": name, "subject": self.redactor.text(subject) if subject else None, "tier": tier}
        return [
            self._artifact(e)
            for e in entries
            if e.seal not in state.removed and all(v is None or e.body.get(k) == v for k, v in wanted.items())
        ]

    def find(self, which: str) -> Artifact:
        """The newest current artifact of ``name@subject``, or the one whose seal starts with `which`.

        Raises:
            ArtifactMissing: there is none; says when it is superseded or withdrawn.
        """
        if "@" not in which:
            return self._by_seal(which)
        name, _, subject = which.partition("@")
        found = self.artifacts(name, subject)
        if found:
            return found[-1]
        gone = self.artifacts(name, subject, current=False)
        why = self.withdrawn().get(gone[-1].seal) if gone else None
        what = f"{which} is withdrawn ({why})" if why else f"no artifact {which}"
        raise ArtifactMissing(
            what, where=str(self.root), fix="See `k3repro artifacts list`, or run the stage that seals it."
        )

    def _by_seal(self, prefix: str) -> Artifact:
        seals = self.state().seals
        found = [seal for seal in seals if seal.startswith(prefix)] if _SEAL.match(prefix) else []
        if len(found) == 1:
            self._require_kept(seals[found[0]])
            return self._artifact(seals[found[0]])
        what = f"{len(found)} artifacts start with {prefix}" if found else f"no artifact {prefix!r}"
        raise ArtifactMissing(
            what,
            where=str(self.root),
            fix="Give name@subject or at least 6 digits of a seal; see `k3repro artifacts list`.",
        )

    def _require_kept(self, entry: Entry) -> None:
        if why := self.state().removed.get(entry.seal):
            raise ArtifactMissing(
                f"artifact {entry.seal[:12]} was superseded and its file removed ({why})",
                where=str(entry.body["file"]),
                fix="The history of the repository has it; `k3repro artifacts list` has what stands.",
            )

    def _artifact(self, entry: Entry) -> Artifact:
        return Artifact(self.root / str(entry.body["file"]), entry.seal)

    def catalog(self) -> Catalog:
        """The current artifacts as one database (a disposable cache)."""
        from k3repro.store._catalog import Catalog

        return Catalog.of_store(self)

    # Ledger

    def heads(self) -> list[str]:
        """Ledger entries that nothing descends from: print them where somebody else will keep them."""
        return self.ledger.heads()

    def withdrawn(self) -> dict[str, Withdrawal]:
        """Retracted artifacts and everything derived from them, with the reason and the chain."""
        return self.state().withdrawn()

    def supersede(self, old: str, new: str, reason: str) -> str:
        """Record that `new` replaces `old`; returns the ledger entry."""
        old_seal, new_seal = self.find(old).seal, self.find(new).seal
        if old_seal == new_seal or not reason.strip():
            raise InputError("a supersession needs two artifacts and a reason")
        gone = self.state().superseded.keys() | self.withdrawn().keys()
        if new_seal in gone:
            raise InputError(
                f"{new_seal[:12]} is itself superseded or withdrawn",
                where="supersede",
                fix="Name the artifact that stands; see `k3repro artifacts list`.",
            )
        return self.ledger.append("supersession", {"seal": old_seal, "by": new_seal, "reason": reason})

    def retract(self, which: str, reason: str) -> str:
        """Withdraw an artifact and, through inputs, everything derived from it; returns the ledger entry."""
        if not reason.strip():
            raise InputError("a retraction needs a reason", fix='Give one: --reason "...".')
        return self.ledger.append("retraction", {"seal": self.find(which).seal, "reason": reason})

    def sign(self, key: Path, name: str = "") -> Path:
        """Sign today's heads with an OpenSSH key; `name` also enters its public half into `signers`."""
        return sign_heads(self.root, self.ledger, key, name)

    def prunable(self) -> list[Entry]:
        """Superseded artifacts that nothing rests on and that were no observations."""
        return prunable(self.state())

    def prune(self, reason: str) -> list[Entry]:
        """Take the files of `prunable` artifacts out of the folder; the ledger says which and why."""
        return prune(self, reason)

    def verify(self, full: bool = False, known_heads: Iterable[str] = ()) -> list[Finding]:
        """Everything wrong with files, digests and ledger; `full` re-reads what did not change.

        `known_heads` are heads printed elsewhere (a site, a badge): they must still be part of the ledger.
        """
        from k3repro.store._verify import verify_store

        return verify_store(self, full=full, known_heads=known_heads)

    def recompute(self, packages: Sequence[str] | None = None) -> list[Finding]:
        """Run every current derivation again and compare; one that cannot be run is not citable."""
        from k3repro.store._verify import recompute_store

        return recompute_store(self, packages)


def _default_root() -> Path:
    if given := os.environ.get("K3REPRO_ARTIFACTS"):
        return Path(given)
    here = Path.cwd()
    found = next(
        (folder / "artifacts" for folder in (here, *here.parents) if (folder / "artifacts").is_dir()), None
    )
    return found or here / "artifacts"


def _shared_subject(artifacts: Sequence[Artifact]) -> str:
    subjects = {artifact.subject for artifact in artifacts}
    if len(subjects) != 1:
        raise InputError(f"the inputs are about {len(subjects)} subjects", fix="Pass subject=.")
    return subjects.pop()
