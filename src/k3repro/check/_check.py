"""Run every detector over a document."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from k3repro.check._document import Document
from k3repro.check._lexer import read_numbers
from k3repro.check._relation import Relation
from k3repro.check._text import Context
from k3repro.check.detect import DETECTORS

__all__ = ["Checked", "check_document"]


@dataclass(frozen=True)
class Checked:
    """A checked document: its relations in reading order, and how many numbers were read."""

    document: Document
    relations: tuple[Relation, ...]
    numbers: int

    def reason(self, relation: Relation) -> str:
        """Why a finding is suppressed; empty where it is not."""
        return self.document.suppressions.get(relation.id, "") if relation.verdict == "differs" else ""

    @property
    def findings(self) -> tuple[Relation, ...]:
        """What differs and is not suppressed."""
        return tuple(r for r in self.relations if r.verdict == "differs" and not self.reason(r))

    @property
    def unused(self) -> tuple[str, ...]:
        """Suppressions that match no finding."""
        differ = {r.id for r in self.relations if r.verdict == "differs"}
        return tuple(
            sorted(name for name, reason in self.document.suppressions.items() if name not in differ)
        )

    @cached_property
    def counts(self) -> dict[str, int]:
        tested = len(self.relations)
        bounds = sum(r.kind == "bound" for r in self.relations)
        suppressed = sum(bool(self.reason(r)) for r in self.relations)
        return {
            "numbers": self.numbers,
            "relations": tested,
            "equalities": tested - bounds,
            "bounds": bounds,
            "holds": sum(r.verdict == "holds" for r in self.relations),
            "differs": len(self.findings),
            "suppressed": suppressed,
        }


def check_document(document: Document) -> Checked:
    """Every relation of a document that a detector recognises; one relation a set of places."""
    context = Context.of(document, read_numbers(document))
    seen: set[tuple[tuple[int, int], ...]] = set()
    found = []
    for detector in DETECTORS:
        for relation in detector(context):
            key = tuple(sorted((n.block.index, n.start) for n in relation.printed))
            if key not in seen:
                seen.add(key)
                found.append(relation)
    found.sort(key=lambda r: (r.claim.block.index, r.claim.start))
    return Checked(document, tuple(found), sum(len(r.numbers) for r in context.readings.values()))
