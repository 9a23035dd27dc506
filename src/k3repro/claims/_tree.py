"""The page of a claim as rows: its derivation down to prints and premises, what would change it, its past."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from k3repro.claims._audit import Backing, Step, Verdict
from k3repro.claims._claim import Claim, Ledger
from k3repro.claims._corrections import short_number
from k3repro.claims._render import show_interval, span_of
from k3repro.claims._rules import rule_text
from k3repro.printed import counted

__all__ = ["TREE_TEXT", "Past", "anchor", "has_page", "section_of", "shown", "tree_rows"]

TREE_TEXT = [
    "role",
    "name",
    "about",
    "printed",
    "formula",
    "interval",
    "outcome",
    "text",
    "before",
    "link",
]
_ROLES = {"derived": "check", "solved": "solved backwards", "repeated": "repeats"}


@dataclass(frozen=True, slots=True)
class Past:
    """What an earlier audit said of a claim."""

    seal: str
    verdict: str
    printed: str
    interval: str


@dataclass(slots=True)
class _Tree:
    ledger: Ledger
    verdicts: Mapping[str, Verdict]
    mentions: Mapping[str, list[Verdict]]
    past: Mapping[str, Sequence[Past]]
    seen: set[str] = field(default_factory=set)

    def of(self, verdict: Verdict) -> Iterator[dict[str, Any]]:
        self.seen = {verdict.claim.id}
        claim = verdict.claim
        yield self._claim(claim, verdict, 0, "claim")
        yield _row(1, "printed at", text=claim.place)
        for other in self.mentions.get(claim.id, ()):
            yield self._mention(other)
        for step in verdict.steps:
            yield from self._step(claim, step, 1)
        yield from _backings(verdict)
        if verdict.code:
            yield _row(1, "finding", name=verdict.code, text=rule_text(verdict.code))
        if verdict.change:
            yield _row(1, "smallest change", text=verdict.change)
        for note in (*verdict.notes, *filter(None, [claim.note])):
            yield _row(1, "note", text=note)
        yield from self._history(claim.id)

    def _claim(self, claim: Claim, verdict: Verdict, depth: int, role: str) -> dict[str, Any]:
        interval = show_interval(span_of(claim.span(), claim))
        return _row(
            depth, role, name=claim.id, about=claim.of, printed=shown(claim), interval=interval,
            outcome=verdict.verdict, link=_link(self.ledger, claim) if depth else "",
        )  # fmt: skip

    def _mention(self, verdict: Verdict) -> dict[str, Any]:
        claim = verdict.claim
        own = verdict.verdict if has_page(verdict) else ""
        link = _link(self.ledger, claim) if own else ""
        return _row(1, "also printed", printed=shown(claim), outcome=own, text=claim.place, link=link)

    def _step(self, claim: Claim, step: Step, depth: int) -> Iterator[dict[str, Any]]:
        said = "; ".join(filter(None, [f"assuming {step.assuming}" if step.assuming else "", step.note]))
        interval = show_interval(span_of(step.derived, claim))
        yield _row(
            depth, _ROLES.get(step.role, step.role), formula=step.formula, interval=interval,
            outcome=step.outcome.value, text=said,
        )  # fmt: skip
        for name in dict.fromkeys(step.inputs):
            yield from self._input(name, depth + 1, deeper=step.role == "derived")

    def _input(self, name: str, depth: int, *, deeper: bool) -> Iterator[dict[str, Any]]:
        if premise := self.ledger.premises.get(name):
            value = counted(short_number(premise.value), premise.unit)
            yield _row(depth, "given", name=name, printed=value, text=premise.source)
            return
        verdict = self.verdicts.get(name)
        if verdict is None:
            return
        yield self._claim(verdict.claim, verdict, depth, "from")
        if deeper and name not in self.seen:
            self.seen.add(name)
            for step in verdict.steps:
                if step.role == "derived":
                    yield from self._step(verdict.claim, step, depth + 1)

    def _history(self, name: str) -> Iterator[dict[str, Any]]:
        past = self.past.get(name, ())
        for one in past:
            yield _row(
                1, "audit before", printed=one.printed, interval=one.interval, outcome=one.verdict,
                before=one.seal,
            )  # fmt: skip
        if not past:
            yield _row(1, "history", text="the same verdict in every audit so far")


def tree_rows(
    ledger: Ledger, verdicts: Sequence[Verdict], past: Mapping[str, Sequence[Past]]
) -> Iterator[dict[str, Any]]:
    """Nodes in reading order, `position` the claim's place among the verdicts, for each claim with a page."""
    mentions: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        mentions.setdefault(verdict.claim.same, []).append(verdict)
    tree = _Tree(ledger, {v.claim.id: v for v in verdicts}, mentions, past)
    for position, verdict in enumerate(verdicts):
        if has_page(verdict):
            for node, row in enumerate(tree.of(verdict)):
                yield {"position": position, "node": node, "claim": verdict.claim.id, **row}


def has_page(verdict: Verdict) -> bool:
    """A claim of its own, or a mention whose print disagrees with what it repeats (or its primary source)."""
    return not verdict.claim.same or any(
        step.role == "repeated" and step.outcome.value == "contradicted" for step in verdict.steps
    )


def section_of(claim: Claim) -> str:
    """The section of a document in which a claim stands."""
    return re.split("[/#]", claim.place)[0]


def anchor(claim: Claim) -> str:
    """The permanent id of a claim on the page of its section; a place in a mention's id loses `/`, `#`."""
    return re.sub(r"[^A-Za-z0-9._@-]", "-", claim.id)


def shown(claim: Claim) -> str:
    """The print with hedge and unit; a word that amounts to a number stands alone."""
    printed = claim.printed if claim.amount else counted(claim.printed, claim.unit)
    return f"{claim.hedge} {printed}".strip()


def _link(ledger: Ledger, claim: Claim) -> str:
    return f"claims/{ledger.id}/{section_of(claim)}.html#{anchor(claim)}"


def _backings(verdict: Verdict) -> Iterator[dict[str, Any]]:
    for backing in verdict.backings:
        yield _row(
            1, "artifact", name=backing.tier, printed=_backing_value(verdict.claim, backing),
            outcome=backing.outcome.value if backing.tier == "measured" else "", text=_backing_text(backing),
            before=backing.seals[0] if backing.seals else "",
        )  # fmt: skip
    if not verdict.backed:
        names = ", ".join(dict.fromkeys(b.artifact for b in verdict.claim.bindings if b.artifact))
        yield _row(1, "artifact", name=names, text="not measured so far")


def _backing_value(claim: Claim, backing: Backing) -> str:
    return counted(f"{float(backing.value):.5g}", claim.unit)


def _backing_text(backing: Backing) -> str:
    parts = [f"n = {backing.n}", backing.relation]
    if backing.difference is not None:
        parts.append(f"difference {float(backing.difference):+.4g}")
    if backing.tolerance:
        parts.append(f"tolerance {float(backing.tolerance):.0%} ({backing.tolerance_from})")
    return "; ".join(parts)


def _row(depth: int, role: str, **texts: str) -> dict[str, Any]:
    return {"depth": depth, **dict.fromkeys(TREE_TEXT, ""), "role": role, **texts}
