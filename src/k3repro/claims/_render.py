"""An audit as JSON, and as lines for people."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from k3repro.claims._audit import VERDICTS, Backing, Step, Verdict, headline
from k3repro.claims._claim import Claim, Ledger
from k3repro.claims._corrections import short_number
from k3repro.claims._library import Audit
from k3repro.claims._rules import rule_text
from k3repro.errors import InputError
from k3repro.printed import Span, counted

__all__ = ["audit_json", "audit_lines", "counts", "show_interval", "span_of", "tree_lines", "verdict_json"]


def span_of(span: Span, claim: Claim) -> list[float | None]:
    """An interval in the claim's printed unit as two numbers; None for an open end."""
    ends = (span.low / claim.unit.factor, span.high / claim.unit.factor)
    return [None if math.isinf(end) else float(end) for end in ends]


def show_interval(interval: list[float | None]) -> str:
    """`[49.6, 50.1]` with six significant digits; an open end as dots."""
    low, high = (f"{end:,.6g}" if end is not None else "..." for end in interval)
    return f"[{low}, {high}]"


def counts(verdicts: Iterable[Verdict]) -> dict[str, int]:
    """Claims per verdict."""
    found = list(verdicts)
    return {name: sum(verdict.verdict == name for verdict in found) for name in VERDICTS}


def verdict_json(verdict: Verdict, ledger: Ledger) -> dict[str, Any]:
    """One claim with its verdict, as `audit claims --json` prints it."""
    claim, step = verdict.claim, verdict.decisive
    return {
        "id": claim.id,
        "source": ledger.id,
        "locator": claim.place,
        "printed": claim.printed,
        "unit": claim.unit.name,
        "kind": claim.kind,
        "hedge": claim.hedge,
        "about": claim.of,
        "same": claim.same,
        "verdict": verdict.verdict,
        "rule": verdict.code,
        "interval": span_of(step.derived if step else claim.span(), claim),
        "claimed": span_of(claim.span(), claim),
        "change": verdict.change,
        "survives_twice_the_tolerance": verdict.survives,
        "fidelity": verdict.fidelity,
        "backing": [_backing_json(backing) for backing in verdict.backings],
        "derivation": [_step_json(step, claim, ledger) for step in verdict.steps],
        "notes": [*verdict.notes, *([claim.note] if claim.note else [])],
    }


def _step_json(step: Step, claim: Claim, ledger: Ledger) -> dict[str, Any]:
    return {
        "formula": step.formula,
        "role": step.role,
        "outcome": step.outcome.value,
        "claimed": span_of(step.claimed, claim),
        "derived": span_of(step.derived, claim),
        "inputs": _inputs(step, ledger),
        "assuming": step.assuming,
        "note": step.note,
    }


def _input_json(name: str, ledger: Ledger) -> dict[str, Any]:
    claim = ledger.claims.get(name)
    if claim is not None:
        return {"id": name, "printed": claim.printed, "unit": claim.unit.name, "locator": claim.place}
    premise = ledger.premises[name]
    return {
        "id": name,
        "printed": short_number(premise.value),
        "unit": premise.unit.name,
        "locator": premise.source,
    }


def _backing_json(backing: Backing) -> dict[str, Any]:
    return {
        "tier": backing.tier,
        "value": float(backing.value),
        "n": backing.n,
        "seals": list(backing.seals),
        "relation": backing.relation,
        "difference": None if backing.difference is None else float(backing.difference),
        "tolerance": float(backing.tolerance),
        "tolerance_from": backing.tolerance_from,
        "outcome": backing.outcome.value,
    }


def audit_json(audits: Iterable[Audit]) -> dict[str, Any]:
    """All audits as one object: a summary per ledger, then every claim."""
    found = list(audits)
    return {
        "ok": all(audit.ok for audit in found),
        "ledgers": [_ledger_json(audit) for audit in found],
        "claims": [verdict_json(verdict, audit.ledger) for audit in found for verdict in audit.verdicts],
    }


def _ledger_json(audit: Audit) -> dict[str, Any]:
    cover = audit.coverage
    own = [verdict for verdict in audit.verdicts if not verdict.claim.same]
    return {
        "id": audit.ledger.id,
        "title": audit.ledger.title,
        "sha256": audit.ledger.sha256,
        "counts": counts(audit.verdicts),
        "counts_without_repetitions": counts(own),
        "measured": sum(verdict.backed for verdict in own),
        "headline": [verdict.claim.id for verdict in headline(list(audit.verdicts))],
        "coverage": {
            "numerals": cover.numerals,
            "claims": cover.claimed,
            "non_claims": [{"rule": name, "count": n, "reason": reason} for name, n, reason in cover.rules],
            "non_claim_share": float(cover.non_claim_share),
            "covered": cover.share,
        },
        "problems": [{"rule": code, "what": what} for code, what in cover.problems]
        + [{"rule": "K3C505", "what": what} for what in audit.source_problems],
    }


def audit_lines(audit: Audit, *, everything: bool = False) -> Iterator[str]:
    """An audit for a terminal: counts, coverage, then one block per contradiction (or per claim)."""
    cover, own = audit.coverage, [verdict for verdict in audit.verdicts if not verdict.claim.same]
    yield f"{audit.ledger.id}: {audit.ledger.title}"
    tally = ", ".join(f"{n} {name}" for name, n in counts(own).items())
    yield f"  {len(own)} claims ({len(audit.verdicts)} numerals with repetitions): {tally}"
    backed = sum(verdict.backed for verdict in own)
    yield f"  measured artifacts back {backed} of {len(own)}"
    yield (
        f"  coverage {cover.share:.1%} of {cover.numerals} numerals, {cover.non_claims} of them no claims "
        f"({float(cover.non_claim_share):.1%})"
    )
    for code, what in cover.problems:
        yield f"  {code} {what}"
    for what in audit.source_problems:
        yield f"  K3C505 {what}"
    shown = audit.verdicts if everything else [v for v in audit.verdicts if _worth_showing(v)]
    for verdict in sorted(shown, key=lambda v: (v.verdict != "contradicted", not v.survives)):
        yield from _verdict_lines(verdict, audit.ledger)


def _worth_showing(verdict: Verdict) -> bool:
    repeated = verdict.claim.same and not (verdict.steps and verdict.steps[0].outcome.value == "contradicted")
    return not repeated and (
        verdict.verdict == "contradicted" or verdict.code in ("K3C105", "K3C110", "K3C304")
    )


def _verdict_lines(verdict: Verdict, ledger: Ledger) -> Iterator[str]:
    claim, step = verdict.claim, verdict.decisive
    unit = f" {claim.unit}" if claim.unit.name else ""
    shown = claim.printed if claim.amount else counted(claim.printed, claim.unit)
    about = f" ({claim.of})" if claim.of else ""
    weak = "" if verdict.survives or verdict.verdict != "contradicted" else ", but not at twice the tolerance"
    code = f"{verdict.code} " if verdict.code else ""
    yield f"  {code}{claim.place}: {claim.id} = {shown}{about} is {verdict.verdict}{weak}"
    if verdict.code:
        yield f"      {rule_text(verdict.code)}"
    if step is not None:
        derived, claimed = (show_interval(span_of(span, claim)) for span in (step.derived, step.claimed))
        yield f"      {step.formula} = {derived}{unit}; claimed {claimed}"
        given = ", ".join(f"{i['id']} = {i['printed']} {i['unit']}".rstrip() for i in _inputs(step, ledger))
        if given:
            yield f"      from {given}"
        for label, text in (("assuming", step.assuming), ("note", step.note)):
            if text:
                yield f"      {label}: {text}"
    for backing in verdict.backings:
        yield f"      {_backing_line(backing, unit)}"
    if verdict.change:
        yield f"      smallest change: {verdict.change}"
    for note in (*verdict.notes, *([claim.note] if claim.note else [])):
        yield f"      note: {note}"


def _backing_line(backing: Backing, unit: str) -> str:
    seal = backing.seals[0][:12] if backing.seals else "?"
    value = f"{float(backing.value):.5g}{unit}"
    difference = "" if backing.difference is None else f", difference {float(backing.difference):+.4g}{unit}"
    tolerance = (
        f"tolerance {float(backing.tolerance):.0%} ({backing.tolerance_from})" if backing.tolerance else ""
    )
    given = ", ".join(filter(None, (f"n = {backing.n}", backing.relation, tolerance)))
    return f"{backing.tier} artifact {seal}: {value}{difference}; {given}"


def _inputs(step: Step, ledger: Ledger) -> list[dict[str, Any]]:
    known = [name for name in dict.fromkeys(step.inputs) if name in ledger.claims or name in ledger.premises]
    return [_input_json(name, ledger) for name in known]


def tree_lines(audit: Audit, name: str) -> Iterator[str]:
    """The derivation of one claim, down to printed numbers and premises, with an interval at every step.

    Raises:
        InputError: the ledger has no such claim.
    """
    verdicts = {verdict.claim.id: verdict for verdict in audit.verdicts}
    if name not in verdicts:
        near = ", ".join(sorted(known for known in verdicts if name.split(".")[0] in known)[:8])
        fix = f"Near it: {near}." if near else "List all with --all."
        raise InputError(f"has no claim {name!r}", where=audit.ledger.path or audit.ledger.id, fix=fix)
    yield from _verdict_lines(verdicts[name], audit.ledger)
    yield "    derivation:"
    yield from _branch(audit.ledger, verdicts, name, 3, set())


def _branch(
    ledger: Ledger, verdicts: Mapping[str, Verdict], name: str, depth: int, seen: set[str]
) -> Iterator[str]:
    pad = "  " * depth
    if name in ledger.premises:
        premise = ledger.premises[name]
        yield f"{pad}{name} = {counted(short_number(premise.value), premise.unit)}, given: {premise.source}"
        return
    verdict = verdicts[name]
    claim = verdict.claim
    stands = show_interval(span_of(claim.span(), claim))
    yield f"{pad}{name}: prints {counted(claim.printed, claim.unit)} at {claim.place}, stands for {stands}"
    steps = [] if name in seen else [step for step in verdict.steps if step.role != "solved"]
    seen.add(name)
    for step in steps:
        derived = show_interval(span_of(step.derived, claim))
        yield f"{pad}  {step.formula} gives {derived}: {step.outcome.value}"
        for given in dict.fromkeys(step.inputs):
            yield from _branch(ledger, verdicts, given, depth + 2, seen)
