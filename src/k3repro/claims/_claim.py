"""What a ledger holds: claims, relations, bindings to artifacts, premises and non-claim rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache

from k3repro.claims._formula import Formula, Measure
from k3repro.printed import MULTIPLIERS, NUMBER_WORDS, Span, Unit, claimed_span, decimals_of, value_of

__all__ = ["KINDS", "Binding", "Claim", "Ledger", "Premise", "Relation", "Rule"]

KINDS = (
    "exact",
    "rounded",
    "approximate",
    "bound",
    "ratio",
    "count",
    "range",
    "ordering",
    "exponent",
    "setting",
)
_EXACT_KINDS = ("exact", "count", "setting", "ordering")


@dataclass(frozen=True, slots=True)
class Relation:
    """How a claim follows from others; `assuming` names what the source does not print."""

    claim: str
    operator: str
    formula: Formula
    rule: str = ""
    assuming: str = ""
    note: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class Binding:
    """A claim bound to a query on artifacts; `tolerance` is a share of the claimed value.

    `artifact` (name@subject or a seal) must not be retracted.
    """

    query: str
    artifact: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    tolerance: Fraction = Fraction(0)
    tolerance_from: str = ""
    scale: Fraction = Fraction(1)


@dataclass(frozen=True, slots=True)
class Premise:
    """A fact from outside the document (a configuration, a specification) with its source."""

    id: str
    value: Fraction
    unit: Unit
    source: str

    @property
    def measure(self) -> Measure:
        return Measure(Span.point(self.value * self.unit.factor), self.unit.dimension)


@lru_cache(maxsize=16384)
def _ulp(printed: str) -> Fraction:
    word = NUMBER_WORDS.get(printed.lower())
    if word is not None:
        return Fraction(int(word.denominator == 1))
    mantissa, _, exponent = printed.lower().partition("e") if printed[:1].isdigit() else (printed, "", "")
    if exponent.lstrip("+-").isdigit():
        return _ulp(mantissa) * Fraction(10) ** int(exponent)
    digits = "".join(c for c in printed if c in "0123456789.")
    suffix = next((MULTIPLIERS[c] for c in reversed(printed) if c in MULTIPLIERS), 1)
    return Fraction(1, 10 ** decimals_of(digits)) * suffix


@lru_cache(maxsize=16384)
def _span(printed: str, hedge: str, exact: bool, factor: Fraction, times: int) -> Span:
    return claimed_span(value_of(printed), _ulp(printed), hedge, exact=exact, times=times).scaled(factor)


@dataclass(frozen=True, slots=True)
class Claim:
    """One printed number: its text, unit and kind, where it stands, and what it follows from.

    `same` names the claim that this mention repeats. `of` says in our own words what the number is about.
    `amount` is the number that a word amounts to ("linear" to an exponent of 1), where none is printed.
    """

    id: str
    place: str
    printed: str
    unit: Unit
    kind: str = "rounded"
    hedge: str = ""
    of: str = ""
    same: str = ""
    relations: tuple[Relation, ...] = ()
    bindings: tuple[Binding, ...] = ()
    statistic: str = ""
    observations: str = ""
    primary: str = ""
    context: str = ""
    note: str = ""
    amount: str = ""

    @property
    def value(self) -> Fraction:
        """The printed number in its printed unit."""
        return value_of(self.amount or self.printed)

    @property
    def ulp(self) -> Fraction:
        """One unit of the last printed place, in the printed unit; a word for a fraction is exact."""
        return _ulp(self.amount or self.printed)

    @property
    def exact(self) -> bool:
        """Whether the print stands for itself only."""
        return self.kind in _EXACT_KINDS

    def span(self, times: int = 1) -> Span:
        """The values the print stands for, in base units, with its tolerance taken `times` times."""
        return _span(self.amount or self.printed, self.hedge, self.exact, self.unit.factor, times)

    @property
    def measure(self) -> Measure:
        return Measure(self.span(), self.unit.dimension)

    def reprinted(self, printed: str) -> Claim:
        """The same claim with another printed text (what the mutation study does)."""
        return replace(self, printed=printed)


@dataclass(frozen=True, slots=True)
class Rule:
    """Why some numerals are no claims: `places` it explains; `count` must be how many there are."""

    id: str
    reason: str
    count: int
    places: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ledger:
    """A ledger of claims about one document."""

    id: str
    title: str
    sha256: str
    claims: Mapping[str, Claim]
    premises: Mapping[str, Premise]
    rules: tuple[Rule, ...]
    path: str = ""
    date: str = ""
    primary: str = ""
    tokens: Mapping[str, str] = field(default_factory=dict)

    def measure(self, name: str) -> Measure:
        """The interval of a claim or premise by id."""
        return self.claims[name].measure if name in self.claims else self.premises[name].measure

    def sharpest(self, times: int = 1) -> dict[str, Measure]:
        """Every claim and premise by id, a claim by the most precise of its prints that agree.

        times: how many times the tolerance of a print is taken.
        """
        found = {name: premise.measure for name, premise in self.premises.items()}
        found |= {c.id: Measure(c.span(times), c.unit.dimension) for c in self.claims.values()}
        for claim in self.claims.values():
            for name in self._repeated(claim):
                base = self.claims[name]
                span = found[name].span.meet(claim.span(times))
                same_kind = base.unit.dimension == claim.unit.dimension
                sharper = claim.ulp * claim.unit.factor < base.ulp * base.unit.factor
                if span is not None and same_kind and sharper:
                    found[name] = Measure(span, base.unit.dimension)
        return found

    def _repeated(self, claim: Claim) -> set[str]:
        """The claims that `claim` prints again: what it mentions, and what it says it simply equals."""
        equal = {r.formula.text.strip() for r in claim.relations if r.operator == "="}
        return ({claim.same} | equal) & self.claims.keys()
