"""The mutation study: would the audit notice if a printed number were wrong?

Numerals are drawn uniformly from everything a document prints, each is changed the way authors slip (a digit,
a unit, a factor, a swap, a sign, a rounding, a hedge), and the audit runs again on what the change can reach.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from k3repro.claims._audit import Step, Verdict, audit_ledger
from k3repro.claims._claim import Claim, Ledger
from k3repro.claims._compare import Agreement
from k3repro.errors import InputError
from k3repro.printed import DECISION_WIDTH, NUMBER_WORDS, parse_unit
from k3repro.units import format_decimal

__all__ = ["KINDS", "Mutant", "Study", "decidable", "mutate", "study"]

KINDS = ("digit", "unit", "ratio", "swap", "sign", "rounding", "hedge")
_UNIT_SLIPS = {
    "GB": "GiB", "GiB": "GB", "MB": "MiB", "MiB": "MB", "TB": "TiB", "TiB": "TB",
    "s": "ms", "ms": "s", "min": "s", "%": "x", "x": "%", "h": "min",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Mutant:
    """One mutated numeral: where, how, old and new print; `caught` when the audit newly flags something."""

    place: str
    claim: str
    kind: str
    old: str
    new: str
    table: bool
    decidable: bool
    caught: bool


@dataclass(frozen=True, slots=True)
class Study:
    """All mutants of one study."""

    mutants: tuple[Mutant, ...]

    def recall(self, *, decidable: bool = False, table: bool = False) -> float:
        """Caught share over all mutants, or over those on decidable numerals, or of tables."""
        chosen = [m for m in self.mutants if (m.decidable or not decidable) and (m.table or not table)]
        return sum(m.caught for m in chosen) / len(chosen) if chosen else 0.0


def decidable(ledger: Ledger) -> set[str]:
    """Claims that an equality pins down: repeated, or allowed an interval no wider than the decision width.

    Bounds and orderings pin nothing, and a claim that is contradicted already cannot be newly flagged.
    """
    found = {claim.id for claim in ledger.claims.values() if claim.same or claim.primary}
    found |= {claim.same for claim in ledger.claims.values() if claim.same}
    verdicts = audit_ledger(ledger)
    found |= {verdict.claim.id for verdict in verdicts if any(map(_pins, verdict.steps))}
    return found - {verdict.claim.id for verdict in verdicts if _flagged(verdict)}


def _pins(step: Step) -> bool:
    equality = step.role != "derived" or step.formula[0] not in "<>"
    return equality and step.outcome is Agreement.SUPPORTED and step.derived.relative_width <= DECISION_WIDTH


def study(ledgers: Sequence[Ledger], draws: int, seed: int) -> Study:
    """Draw `draws` numerals uniformly from all of `ledgers`, non-claims included, and mutate each once."""
    source = random.Random(seed)
    places = [(ledger, place) for ledger in ledgers for place in ledger.tokens]
    bare = {
        ledger.id: replace(ledger, claims={n: _bare(c) for n, c in ledger.claims.items()})
        for ledger in ledgers
    }
    known = {ledger.id: decidable(ledger) for ledger in ledgers}
    reach = {ledger.id: _Reach(ledger, bare.get(ledger.primary)) for ledger in ledgers}
    mutants = []
    for ledger, place in source.sample(places, draws):
        mutants.append(_one(reach[ledger.id], place, known[ledger.id], source))
    return Study(tuple(mutants))


class _Reach:
    """What a change of one claim can touch: its checks, its repetitions, every check that reads it."""

    def __init__(self, ledger: Ledger, primary: Ledger | None) -> None:
        self.ledger = ledger
        self.primary = primary
        self.at = {claim.place: claim.id for claim in ledger.claims.values()}
        self.readers: dict[str, set[str]] = {}
        for claim in ledger.claims.values():
            for name in [claim.same, *(n for relation in claim.relations for n in relation.formula.names)]:
                self.readers.setdefault(name, set()).add(claim.id)

    def part(self, changed: Iterable[Claim]) -> Ledger:
        """The ledger cut down to what the changed claims reach, with the changes in it."""
        new = {claim.id: claim for claim in changed}
        touched = set(new)
        for claim in new.values():
            touched |= self.readers.get(claim.id, set()) | ({claim.same} if claim.same else set())
        claims: dict[str, Claim] = {}
        for name in touched:
            claims[name] = new.get(name, self.ledger.claims[name])
            wanted = [n for relation in claims[name].relations for n in relation.formula.names]
            for other in [*wanted, claims[name].same]:
                if other in self.ledger.claims and other not in touched:
                    claims[other] = _bare(new.get(other, self.ledger.claims[other]))
            if claims[name].observations and claims[name].observations not in touched:
                claims[claims[name].observations] = _bare(self.ledger.claims[claims[name].observations])
        return replace(self.ledger, claims=claims)

    def flags(self, changed: Iterable[Claim], of: Iterable[Claim]) -> set[str]:
        """Ids that the audit contradicts, over what `changed` reaches; unit mismatches count as flags."""
        part = self.part(changed)
        try:
            verdicts: list[Verdict] = audit_ledger(part, primary=self.primary)
        except InputError:
            return {"unit mismatch", *(claim.id for claim in of)}
        return {verdict.claim.id for verdict in verdicts if _flagged(verdict)}


def _flagged(verdict: Verdict) -> bool:
    return verdict.verdict == "contradicted" or verdict.code == "K3C110"


def _bare(claim: Claim) -> Claim:
    """A claim as a mere number: an input, not a check."""
    return replace(claim, relations=(), same="", statistic="")


def _one(reach: _Reach, place: str, known: set[str], source: random.Random) -> Mutant:
    name = reach.at.get(place, "")
    token = reach.ledger.tokens[place]
    table = bool(re.search(r"/t\d+\.r", place))
    if not name:
        return Mutant(place, "", "digit", token, _digit(token, source), table, False, False)
    claim = reach.ledger.claims[name]
    kind, changed = _applicable(reach, claim, source)
    before = reach.flags([reach.ledger.claims[c.id] for c in changed], changed)
    after = reach.flags(changed, changed)
    caught = bool(after - before) or _units_broken(reach, changed)
    new = next(c for c in changed if c.id == name)
    shown = f"{new.hedge} {new.printed} {new.unit}".strip()
    return Mutant(
        place, name, kind, f"{claim.hedge} {token} {claim.unit}".strip(), shown, table, name in known, caught
    )


def _units_broken(reach: _Reach, changed: Iterable[Claim]) -> bool:
    """Whether a changed unit no longer fits a formula (the ledger would be refused)."""
    for claim in changed:
        if claim.unit.dimension != reach.ledger.claims[claim.id].unit.dimension:
            return bool(claim.relations or claim.same or reach.readers.get(claim.id))
    return False


def _applicable(reach: _Reach, claim: Claim, source: random.Random) -> tuple[str, list[Claim]]:
    kinds = list(KINDS)
    source.shuffle(kinds)
    for kind in kinds:
        changed = mutate(reach.ledger, claim, kind, source)
        if changed:
            return kind, changed
    return "ratio", [claim.reprinted(_scaled(claim.printed, Fraction(2)))]


def mutate(ledger: Ledger, claim: Claim, kind: str, source: random.Random) -> list[Claim]:
    """The changed claims of one mutation, or an empty list where that kind does not apply."""
    return _MUTATORS[kind](ledger, claim, source)


def _by_digit(ledger: Ledger, claim: Claim, source: random.Random) -> list[Claim]:
    return [claim.reprinted(_digit(claim.printed, source))]


def _by_unit(ledger: Ledger, claim: Claim, source: random.Random) -> list[Claim]:
    head, _, tail = claim.unit.name.partition("/")
    slip = _UNIT_SLIPS.get(head)
    return [replace(claim, unit=parse_unit(slip + (f"/{tail}" if tail else "")))] if slip else []


def _by_ratio(ledger: Ledger, claim: Claim, source: random.Random) -> list[Claim]:
    factor = source.choice((Fraction(2), Fraction(1, 2), Fraction(10), Fraction(1, 10)))
    printed = _scaled(claim.printed, factor)
    return [claim.reprinted(printed)] if printed != claim.printed and claim.value else []


def _by_swap(ledger: Ledger, claim: Claim, source: random.Random) -> list[Claim]:
    """Exchange with the next numeral of the same section or table that prints another number."""
    places = list(ledger.tokens)
    following = places[places.index(claim.place) + 1 :][:3]
    at = {other.place: other for other in ledger.claims.values()}
    for place in following:
        other = at.get(place)
        if other and other.value != claim.value and _section(place) == _section(claim.place):
            return [claim.reprinted(other.printed), other.reprinted(claim.printed)]
    return []


def _by_sign(ledger: Ledger, claim: Claim, source: random.Random) -> list[Claim]:
    if claim.printed.lower() in NUMBER_WORDS or not claim.value or claim.printed[0] not in "0123456789-−":
        return []
    bare = claim.printed.lstrip("-−")
    return [claim.reprinted(bare if bare != claim.printed else f"-{bare}")]


def _by_rounding(ledger: Ledger, claim: Claim, source: random.Random) -> list[Claim]:
    """Cut the last digit off (truncation), or count it up by one where there is no decimal."""
    match = re.fullmatch(r"(\d[\d,]*)\.(\d+)(\D*)", claim.printed)
    if match:
        whole, decimals, suffix = match.groups()
        last = (int(decimals[-1]) + source.choice((2, 3, 4))) % 10
        return [claim.reprinted(f"{whole}.{decimals[:-1]}{last}{suffix}")]
    digits = re.fullmatch(r"(\d[\d,]+)(\d)(\D*)", claim.printed)
    if digits is None:
        return []
    head, last_digit, suffix = digits.groups()
    return [claim.reprinted(f"{head}{(int(last_digit) + source.choice((2, 3, 4))) % 10}{suffix}")]


def _by_hedge(ledger: Ledger, claim: Claim, source: random.Random) -> list[Claim]:
    return [replace(claim, hedge="exactly")] if claim.hedge and claim.hedge != "exactly" else []


_MUTATORS: Mapping[str, Callable[[Ledger, Claim, random.Random], list[Claim]]] = {
    "digit": _by_digit,
    "unit": _by_unit,
    "ratio": _by_ratio,
    "swap": _by_swap,
    "sign": _by_sign,
    "rounding": _by_rounding,
    "hedge": _by_hedge,
}


def _section(place: str) -> str:
    return re.split(r"[#.]", place)[0]


def _digit(token: str, source: random.Random) -> str:
    if token.lower() in NUMBER_WORDS:
        return source.choice(
            [word for word in ("two", "three", "four", "six", "nine") if word != token.lower()]
        )
    spots = [i for i, character in enumerate(token) if character.isdigit()]
    spot = source.choice(spots)
    first = spot == spots[0] and len(spots) > 1
    digit = source.choice([d for d in "0123456789" if d != token[spot] and not (first and d == "0")])
    return token[:spot] + digit + token[spot + 1 :]


def _scaled(token: str, factor: Fraction) -> str:
    """A token printed with its value times `factor`, same suffix, enough decimals to show it."""
    if token.lower() in NUMBER_WORDS:
        return format_decimal(str(float(NUMBER_WORDS[token.lower()] * factor)), 2).rstrip("0").rstrip(".")
    match = re.fullmatch(r"((?:TP|DP|EP)?[-−]?)(\d[\d,]*(?:\.\d+)?)(.*)", token)
    if match is None:
        return token
    sign, digits, suffix = match.groups()
    value = Fraction(digits.replace(",", "")) * factor
    places = len(digits.partition(".")[2]) + (0 if factor > 1 else 1 if factor == Fraction(1, 10) else 0)
    return f"{sign}{format_decimal(str(float(value)), places)}{suffix}"
