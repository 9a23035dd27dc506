"""Coverage: every numeral of a source stands in a claim or under a rule, every claim in the source."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from k3repro.claims._claim import Ledger
from k3repro.claims._ledger import LedgerError
from k3repro.claims._skeleton import Skeleton
from k3repro.claims._source import Source
from k3repro.printed import NON_CLAIM_SHARE

__all__ = ["Coverage", "coverage", "require_anchors"]


@dataclass(frozen=True, slots=True)
class Coverage:
    """How many numerals of a source a ledger covers; `uncovered` are place and token."""

    numerals: int
    claimed: int
    non_claims: int
    uncovered: tuple[tuple[str, str], ...]
    rules: tuple[tuple[str, int, str], ...]

    @property
    def share(self) -> float:
        """Covered share of all numerals, non-claims included."""
        return (self.claimed + self.non_claims) / self.numerals if self.numerals else 1.0

    @property
    def non_claim_share(self) -> Fraction:
        return Fraction(self.non_claims, self.numerals) if self.numerals else Fraction(0)

    @property
    def problems(self) -> list[tuple[str, str]]:
        """Rule code and message of everything that keeps coverage from being complete."""
        found = [
            ("K3C401", f"{place} prints {token!r}, which no claim and no rule covers")
            for place, token in self.uncovered
        ]
        if self.non_claim_share > NON_CLAIM_SHARE:
            share = f"{self.non_claims} of {self.numerals}"
            found.append(
                (
                    "K3C402",
                    f"{share} numerals are explained as no claim, more than {float(NON_CLAIM_SHARE):.0%}",
                )
            )
        return found


def coverage(ledger: Ledger, skeleton: Skeleton) -> Coverage:
    """Compare a ledger with the skeleton of its source.

    Raises:
        LedgerError: a claim whose anchor is not in the skeleton, or whose printed number is another (K3C505).
    """
    bones = skeleton.by_place()
    _require(ledger, {place: bone.token for place, bone in bones.items()}, "the skeleton")
    skipped = sum(rule.count for rule in ledger.rules)
    uncovered = tuple((bone.place, bone.token) for bone in skeleton.bones if bone.place not in ledger.tokens)
    rules = tuple((rule.id, rule.count, rule.reason) for rule in ledger.rules)
    return Coverage(len(bones), len(ledger.tokens) - skipped, skipped, uncovered, rules)


def require_anchors(ledger: Ledger, skeleton: Skeleton, source: Source) -> None:
    """Every claim's numeral must still stand, in its context, in the source at hand.

    Raises:
        LedgerError: an anchor vanished (K3C505).
    """
    lost = sorted(skeleton.lost(source) & set(ledger.tokens), key=list(ledger.tokens).index)
    if lost:
        more = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
        raise LedgerError(
            f"the source no longer contains {ledger.tokens[lost[0]]!r} at {lost[0]}{more} [K3C505]",
            where=ledger.path or ledger.id,
            code="K3C505",
            fix="The document changed: draft anew with `audit extract`, compare with `audit diff`.",
        )


def _require(ledger: Ledger, tokens: dict[str, str], where: str) -> None:
    for place, printed in ledger.tokens.items():
        if tokens.get(place) == printed:
            continue
        found = f"prints {tokens[place]!r} there" if place in tokens else "has no numeral there"
        raise LedgerError(
            f"{place} is claimed to print {printed!r}, but {where} {found} [K3C505]",
            where=ledger.path or ledger.id,
            code="K3C505",
            fix="Correct the claim, or its place.",
        )
