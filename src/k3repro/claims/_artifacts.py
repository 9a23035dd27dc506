"""Claims against artifacts: a binding's query is run on the current artifacts, measured before simulated."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Protocol

from k3repro.claims._audit import Backing
from k3repro.claims._claim import Binding, Claim
from k3repro.claims._compare import Agreement, compare
from k3repro.claims._ledger import LedgerError
from k3repro.errors import K3Error
from k3repro.printed import Span
from k3repro.relation import CIRCULAR, IN_SAMPLE, RELATIONS

__all__ = ["ArtifactSource", "backer"]

_SEAL = re.compile(r"[0-9a-f]{6,64}")
_NO_ARTIFACT = re.compile(r"does not exist|no such (table|view)", re.IGNORECASE)
_ORDER = ("measured", "simulated", "derived", "published", "config", "unverified")


class ArtifactSource(Protocol):
    """What the audit asks of a store."""

    def query(self, sql: str) -> list[dict[str, Any]]: ...

    def withdrawn(self) -> Mapping[str, str]:
        """Retracted seals and why."""


class _Backer:
    def __init__(self, source: ArtifactSource) -> None:
        self._source = source
        self._withdrawn = source.withdrawn()

    def __call__(self, claim: Claim, binding: Binding) -> Backing | None:
        """The best row a binding finds, or None where no artifact speaks of the claim.

        Raises:
            LedgerError: a retracted artifact (K3C504), or a query that is wrong (K3C501).
        """
        self._require_current(claim, binding)
        try:
            rows = self._source.query(binding.query)
        except K3Error as error:
            if _NO_ARTIFACT.search(str(error)):
                return None
            raise LedgerError(
                f"its query cannot run: {error.what} [K3C501]",
                where=f"claim {claim.id}",
                fix=error.fix,
                code="K3C501",
            ) from None
        rows = [row for row in rows if row.get("value") is not None]
        if not rows:
            return None
        return _backing(claim, binding, min(rows, key=lambda row: _rank(str(row.get("tier", "")))))

    def _require_current(self, claim: Claim, binding: Binding) -> None:
        name = binding.artifact
        gone = [seal for seal in self._withdrawn if name and _SEAL.fullmatch(name) and seal.startswith(name)]
        if gone:
            why = self._withdrawn[gone[0]]
            raise LedgerError(
                f"is bound to the retracted artifact {gone[0][:12]}: {why} [K3C504]",
                where=f"claim {claim.id}",
                fix="Bind it to the artifact that replaced it, or remove the binding.",
                code="K3C504",
            )


def backer(source: ArtifactSource) -> _Backer:
    """A function that looks a claim's bindings up in `source`."""
    return _Backer(source)


def _rank(tier: str) -> int:
    return _ORDER.index(tier) if tier in _ORDER else len(_ORDER)


def _backing(claim: Claim, binding: Binding, row: Mapping[str, Any]) -> Backing:
    value = Fraction(str(row["value"])) * binding.scale
    slack = abs(claim.value) * binding.tolerance * claim.unit.factor
    span = claim.span()
    allowed = Span(span.low - slack, span.high + slack)
    outcome = compare(allowed, "=", Span.point(value * claim.unit.factor))
    seals = row.get("seal", ())
    tier = str(row.get("tier", "unverified"))
    relation = str(row.get("relation") or IN_SAMPLE)
    if relation not in RELATIONS:
        known = f"Known: {', '.join(RELATIONS)}; relation_of(...) gives it."
        raise LedgerError(
            f"has the unknown relation {relation!r} [K3C501]",
            where=f"claim {claim.id}",
            fix=known,
            code="K3C501",
        )
    told = tier == "measured" or relation not in CIRCULAR
    return Backing(
        tier,
        value,
        int(row.get("n") or 0),
        tuple([seals] if isinstance(seals, str) else seals),
        relation,
        value - claim.value if told else None,
        binding.tolerance,
        binding.tolerance_from,
        outcome if tier == "measured" else Agreement.UNDECIDABLE,
    )
