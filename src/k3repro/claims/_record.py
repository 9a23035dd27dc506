"""The audit as an artifact: the skeleton is transcribed, the verdicts are derived from it.

The ledger travels as a parameter, so `audit artifacts --recompute` judges every claim again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from k3repro.claims._artifacts import backer
from k3repro.claims._audit import VERDICTS, Step, Verdict, audit_ledger, headline
from k3repro.claims._claim import Claim, Ledger
from k3repro.claims._corrections import short_number
from k3repro.claims._coverage import Coverage, coverage
from k3repro.claims._ledger import read_ledger_text
from k3repro.claims._library import Library
from k3repro.claims._render import show_interval, span_of
from k3repro.claims._rules import rule_text
from k3repro.claims._skeleton import Bone, Skeleton
from k3repro.claims._tree import TREE_TEXT, Past, anchor, has_page, section_of, shown, tree_rows
from k3repro.errors import K3Error
from k3repro.printed import counted
from k3repro.store import Artifact, Catalog, Column, Schema, Store, Table, derivation

__all__ = ["CLAIMS_SCHEMA", "SKELETON_SCHEMA", "audit_of_claims", "seal_audits"]

SKELETON_SCHEMA = Schema(
    [
        Table(
            "numerals",
            [
                Column("offset", "INT64", doc="character offset in the document", nullable=False),
                Column("token", "VARCHAR", doc="the numeral as printed", nullable=False),
                Column("place", "VARCHAR", doc="section, table, row and column", nullable=False),
                Column("context", "VARCHAR", doc="salted hash of the text around it", nullable=False),
            ],
            key=("offset",),
            doc="Every numeral and number word of a document; no sentence.",
        )
    ]
)
_TEXT = [
    "place",
    "section",
    "page",
    "printed",
    "unit",
    "kind",
    "about",
    "same",
    "verdict",
    "rule",
    "meaning",
    "fidelity",
    "claimed",
    "derived",
    "formula",
    "inputs",
    "assuming",
    "change",
    "note",
]
_COUNTS = [
    "numerals",
    "claims",
    "own_claims",
    "non_claims",
    "uncovered",
    "supported",
    "repeats",
    "contradicted",
    "undecidable",
    "unbacked",
    "in_headline",
    "measured",
    "small_n",
]
_STATE = ("verdict", "printed", "derived")
_STEP_TEXT = ["claim", "role", "formula", "inputs", "outcome", "claimed", "derived", "assuming", "note"]
CLAIMS_SCHEMA = Schema(
    [
        Table(
            "claims",
            [
                Column("position", "INT64", doc="order in the document", nullable=False),
                Column("claim", "VARCHAR", doc="id in the ledger", nullable=False),
                *(Column(name, "VARCHAR") for name in _TEXT),
                Column("survives", "BOOL", doc="contradicted at twice the tolerance too", nullable=False),
                Column("in_headline", "BOOL", doc="survives and is no repetition", nullable=False),
                Column("measured", "BOOL", doc="a measured artifact speaks of it", nullable=False),
            ],
            key=("position",),
        ),
        Table(
            "steps",
            [
                Column("position", "INT64", nullable=False),
                Column("step", "INT64", nullable=False),
                *(Column(name, "VARCHAR") for name in _STEP_TEXT),
            ],
            key=("position", "step"),
            doc="Every check of every claim: what it follows from, and the interval that gives.",
        ),
        Table(
            "tree",
            [
                Column("position", "INT64", nullable=False),
                Column("node", "INT64", nullable=False),
                Column("depth", "INT64", doc="0 is the claim", nullable=False),
                Column("claim", "VARCHAR", nullable=False),
                *(Column(name, "VARCHAR") for name in TREE_TEXT),
            ],
            key=("position", "node"),
            doc="The page of every claim: derivation, artifacts, smallest change, earlier verdicts.",
        ),
        Table(
            "summary",
            [
                Column("document", "VARCHAR", nullable=False),
                *(Column(name, "INT64", nullable=False) for name in _COUNTS),
                Column("covered", "DOUBLE", doc="share of the numerals", nullable=False),
                Column("non_claim_share", "DOUBLE", nullable=False),
            ],
            key=("document",),
        ),
        Table(
            "non_claims",
            [
                Column("rule", "VARCHAR", nullable=False),
                Column("reason", "VARCHAR", nullable=False),
                Column("numerals", "INT64", nullable=False),
            ],
            key=("rule",),
        ),
    ]
)


@derivation(name="claims-audit", schema=CLAIMS_SCHEMA)
def audit_of_claims(inputs: Sequence[Artifact], *, ledger: str, primary: str = "") -> Mapping[str, Any]:
    """Judge a ledger (TOML text) against its skeleton and, for a secondary source, the primary ledger.

    The first input is the skeleton; the others are measured artifacts that claims are bound to, and the
    earlier audits of the same document, oldest first, from which the history of a verdict is told.

    Raises:
        LedgerError: a ledger is wrong, or a claim has no anchor in the skeleton.
    """
    read = read_ledger_text(ledger)
    skeleton = _skeleton(inputs[0])
    audits = [artifact for artifact in inputs[1:] if artifact.name == "claims-audit"]
    measured = [artifact for artifact in inputs[1:] if artifact.name != "claims-audit"]
    back = backer(_Sealed(measured)) if measured else None
    verdicts = audit_ledger(read, primary=read_ledger_text(primary) if primary else None, back=back)
    cover = coverage(read, skeleton)
    chosen = {verdict.claim.id for verdict in headline(verdicts)}
    rows = [_claim_row(at, verdict, verdict.claim.id in chosen) for at, verdict in enumerate(verdicts)]
    steps = [
        _step_row(at, number, verdict, step, read)
        for at, verdict in enumerate(verdicts)
        for number, step in enumerate(verdict.steps)
    ]
    past = _history(audits, verdicts, read)
    rules = [{"rule": rule, "reason": reason, "numerals": count} for rule, count, reason in cover.rules]
    return {
        "claims": [row | _decisive(verdict, read) for row, verdict in zip(rows, verdicts, strict=True)],
        "steps": steps,
        "tree": list(tree_rows(read, verdicts, past)),
        "summary": [_summary(read, verdicts, cover, len(chosen))],
        "non_claims": rules,
    }


def _history(
    audits: Sequence[Artifact], verdicts: Sequence[Verdict], ledger: Ledger
) -> dict[str, list[Past]]:
    """What earlier audits said of each claim, oldest first, as far as the next one said something else."""
    states: dict[str, list[Past]] = {verdict.claim.id: [] for verdict in verdicts}
    for artifact in audits:
        rows = {str(row["claim"]): row for row in artifact.rows("claims")}
        for name, found in states.items():
            found.append(_past(artifact.seal, rows.get(name)))
    for verdict in verdicts:
        now = _past("", {"claim": verdict.claim.id, **_state(verdict, ledger)})
        found = [*states[verdict.claim.id], now]
        states[verdict.claim.id] = [one for one, after in pairwise(found) if _said(one) != _said(after)]
    return states


def _said(one: Past) -> tuple[str, str]:
    """What makes a verdict another one; a narrower interval or a unit spelt otherwise does not."""
    return (one.verdict, _digits(one.printed))


def _digits(printed: str) -> str:
    return re.sub(r"[^0-9.]", "", printed)


def _past(seal: str, row: Mapping[str, Any] | None) -> Past:
    if row is None:
        return Past(seal, "not in the ledger", "", "")
    return Past(seal, *(str(row[name]) for name in _STATE))


def _state(verdict: Verdict, ledger: Ledger) -> dict[str, str]:
    derived = str(_decisive(verdict, ledger)["derived"])
    return {"verdict": verdict.verdict, "printed": shown(verdict.claim), "derived": derived}


class _Sealed:
    """The inputs of the derivation as the audit's source of artifacts."""

    def __init__(self, artifacts: Sequence[Artifact]) -> None:
        self._catalog = Catalog.of(artifacts)

    def query(self, sql: str) -> list[dict[str, Any]]:
        return self._catalog.query(sql)

    def withdrawn(self) -> Mapping[str, str]:
        return {}


def _skeleton(artifact: Artifact) -> Skeleton:
    bones = tuple(
        Bone(str(row["token"]), int(row["offset"]), str(row["place"]), str(row["context"]))
        for row in artifact.rows("numerals")
    )
    return Skeleton(artifact.subject, str(artifact.citation.get("sha256", "")), "", bones)


def _claim_row(at: int, verdict: Verdict, chosen: bool) -> dict[str, Any]:
    claim = verdict.claim
    return {
        "position": at,
        "claim": claim.id,
        "place": claim.place,
        "section": section_of(claim),
        "page": anchor(claim) if has_page(verdict) else "",
        "printed": shown(claim),
        "unit": claim.unit.name,
        "kind": claim.kind,
        "about": claim.of,
        "same": claim.same,
        "verdict": verdict.verdict,
        "rule": verdict.code,
        "meaning": rule_text(verdict.code) if verdict.code else "",
        "fidelity": verdict.fidelity,
        "change": verdict.change,
        "note": "; ".join([*verdict.notes, *([claim.note] if claim.note else [])]),
        "survives": verdict.verdict == "contradicted" and verdict.survives,
        "in_headline": chosen,
        "measured": verdict.backed,
    }


def _decisive(verdict: Verdict, ledger: Ledger) -> dict[str, Any]:
    step = verdict.decisive
    claimed = show_interval(span_of(verdict.claim.span(), verdict.claim))
    if step is None:
        return {"claimed": claimed, "derived": "", "formula": "", "inputs": "", "assuming": ""}
    derived = show_interval(span_of(step.derived, verdict.claim))
    why = {"formula": step.formula, "inputs": _inputs(step, ledger), "assuming": step.assuming}
    return {"claimed": claimed, "derived": derived, **why}


def _step_row(at: int, number: int, verdict: Verdict, step: Step, ledger: Ledger) -> dict[str, Any]:
    claim: Claim = verdict.claim
    return {
        "position": at,
        "step": number,
        "claim": claim.id,
        "role": step.role,
        "formula": step.formula,
        "inputs": _inputs(step, ledger),
        "outcome": step.outcome.value,
        "claimed": show_interval(span_of(step.claimed, claim)),
        "derived": show_interval(span_of(step.derived, claim)),
        "assuming": step.assuming,
        "note": step.note,
    }


def _inputs(step: Step, ledger: Ledger) -> str:
    found = []
    for name in dict.fromkeys(step.inputs):
        if claim := ledger.claims.get(name):
            found.append(f"{name} = {_print(claim)}")
        elif premise := ledger.premises.get(name):
            source = premise.source.rpartition("; ")[2]
            found.append(f"{name} = {counted(short_number(premise.value), premise.unit)} ({source})")
    return "; ".join(found)


def _print(claim: Claim) -> str:
    """The print with its unit; a word that amounts to a number stands alone."""
    return claim.printed if claim.amount else counted(claim.printed, claim.unit)


def _summary(ledger: Ledger, verdicts: list[Verdict], cover: Coverage, chosen: int) -> dict[str, Any]:
    own = [verdict for verdict in verdicts if not verdict.claim.same]
    tally = {name: sum(verdict.verdict == name for verdict in own) for name in VERDICTS}
    return {
        "document": ledger.id,
        "numerals": cover.numerals,
        "claims": len(verdicts),
        "own_claims": len(own),
        "non_claims": cover.non_claims,
        "uncovered": len(cover.uncovered),
        **tally,
        "in_headline": chosen,
        "measured": sum(verdict.backed for verdict in own),
        "small_n": sum(verdict.code == "K3C105" for verdict in own),
        "covered": cover.share,
        "non_claim_share": float(cover.non_claim_share),
    }


def seal_audits(store: Store, names: Sequence[str] = ()) -> list[Artifact]:
    """Seal the skeleton and the audit of each ledger of a store (default: all of them)."""
    library = Library(store.root)
    return [_seal(store, library, name) for name in names or library.names()]


def _seal(store: Store, library: Library, name: str) -> Artifact:
    ledger = library.ledger(name)
    skeleton = library.skeleton(ledger)
    rows = [
        {"offset": bone.offset, "token": bone.token, "place": bone.place, "context": bone.context}
        for bone in skeleton.bones
    ]
    citation = {"document": ledger.title, "sha256": skeleton.sha256, "locator": "every numeral"}
    numerals = store.transcribe("skeleton", ledger.id, citation, SKELETON_SCHEMA, rows)
    parameters = {"ledger": _text(ledger)}
    if ledger.primary:
        parameters["primary"] = _text(library.ledger(ledger.primary))
    measured = _measured(store, ledger)
    earlier = _earlier(store, audit_of_claims([numerals, *measured], **parameters)["claims"], ledger.id)
    inputs = [numerals, *measured, *earlier]
    audit = store.derive(audit_of_claims, inputs, subject=ledger.id, parameters=parameters)
    for old in store.artifacts(name=audit.name, subject=audit.subject):
        if old.seal != audit.seal:
            store.supersede(old.seal, audit.seal, "the ledger, its document or what was measured changed")
    return audit


def _earlier(store: Store, now: Sequence[Mapping[str, Any]], subject: str) -> list[Artifact]:
    """Audits of the document before this one, oldest first, each as far as the next said something else."""
    gone = store.withdrawn()
    before = store.artifacts(name="claims-audit", subject=subject, current=False)
    before = [artifact for artifact in before if artifact.seal not in gone]
    states = [*({_key(row) for row in artifact.rows("claims")} for artifact in before), set(map(_key, now))]
    return [
        artifact for artifact, (said, after) in zip(before, pairwise(states), strict=True) if said != after
    ]


def _key(row: Mapping[str, Any]) -> tuple[str, ...]:
    return (str(row["claim"]), str(row["verdict"]), _digits(str(row["printed"])))


def _measured(store: Store, ledger: Ledger) -> list[Artifact]:
    """Measured artifacts that a binding's query cites; simulated ones never settle a verdict."""
    bindings = [binding for claim in ledger.claims.values() for binding in claim.bindings]
    names = {binding.artifact.partition("@")[0] for binding in bindings}
    named = {artifact.seal for name in names for artifact in store.artifacts(name)}  # the ledger knows names
    found = [a for a in store.artifacts() if a.seal in named and "measured" in (a.tier, a.basis)]
    source = _Sealed(found)
    cited = {seal for binding in bindings for seal in _cited(source, binding.query)} if found else set()
    return [artifact for artifact in found if artifact.seal in cited]


def _cited(source: _Sealed, query: str) -> set[str]:
    """Seals of the rows of a query; a query that cannot run cites nothing here, and the audit says why."""
    try:
        rows = source.query(query)
    except K3Error:
        return set()
    seals = [row.get("seal") or () for row in rows]
    return {seal for item in seals for seal in ([item] if isinstance(item, str) else item)}


def _text(ledger: Ledger) -> str:
    """The ledger without its comment lines: they are for people."""
    return re.sub(r"(?m)^#.*\n", "", Path(ledger.path).read_text(encoding="utf-8"))
