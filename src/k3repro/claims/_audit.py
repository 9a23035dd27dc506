"""The audit of a ledger: every derivable number recomputed, a verdict for each with its interval."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

from k3repro.claims._claim import Binding, Claim, Ledger, Relation
from k3repro.claims._compare import Agreement, compare
from k3repro.claims._corrections import smallest_change
from k3repro.claims._formula import Measure
from k3repro.printed import DECISION_WIDTH, OPEN_HEDGES, Span
from k3repro.units import quantile_supported

__all__ = ["VERDICTS", "Backing", "Step", "Verdict", "audit_ledger", "headline"]

VERDICTS = ("supported", "repeats", "contradicted", "undecidable", "unbacked")
Backer = Callable[[Claim, Binding], "Backing | None"]


@dataclass(frozen=True, slots=True)
class Step:
    """One check of a claim: the formula, the interval it gives, the outcome, and what it assumed."""

    formula: str
    role: str
    outcome: Agreement
    claimed: Span
    derived: Span
    inputs: tuple[str, ...] = ()
    rule: str = ""
    assuming: str = ""
    note: str = ""
    survives: bool = False


@dataclass(frozen=True, slots=True)
class Backing:
    """What an artifact says of a claim: value in its unit, tier, n, difference and tolerance.

    The difference is None where the simulation was calibrated on the claim (in-sample) or shares its formula.
    """

    tier: str
    value: Fraction
    n: int
    seals: tuple[str, ...]
    relation: str
    difference: Fraction | None
    tolerance: Fraction
    tolerance_from: str
    outcome: Agreement


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on one claim, with everything that explains it."""

    claim: Claim
    verdict: str
    steps: tuple[Step, ...] = ()
    code: str = ""
    survives: bool = False
    change: str = ""
    backings: tuple[Backing, ...] = ()
    fidelity: str = ""
    notes: tuple[str, ...] = field(default=())

    @property
    def decisive(self) -> Step | None:
        """The step that settled the verdict."""
        settled = {"contradicted": Agreement.CONTRADICTED, "supported": Agreement.SUPPORTED}
        wanted = Agreement.CONTRADICTED if self.code == "K3C110" else settled.get(self.verdict)
        return next(
            (step for step in self.steps if step.outcome is wanted), self.steps[0] if self.steps else None
        )

    @property
    def backed(self) -> bool:
        """Whether a measured artifact speaks of the claim."""
        return any(backing.tier == "measured" for backing in self.backings)


def audit_ledger(
    ledger: Ledger, *, primary: Ledger | None = None, back: Backer | None = None
) -> list[Verdict]:
    """A verdict for every claim and mention, in document order.

    `primary` is the ledger a secondary source reports on; `back` looks bindings up in artifacts.
    """
    steps = _steps(ledger)
    source = _Primary(primary, {v.claim.id: v for v in audit_ledger(primary, back=back)}) if primary else None
    found: dict[str, Verdict] = {}
    for claim in ledger.claims.values():
        if not claim.same:
            found[claim.id] = _verdict(ledger, claim, steps.get(claim.id, []), source, back)
    for claim in ledger.claims.values():
        if claim.same:
            found[claim.id] = _mention(ledger, claim, found[claim.same], source)
    return [found[identity] for identity in ledger.claims]


def headline(verdicts: list[Verdict]) -> list[Verdict]:
    """Contradictions that survive twice the tolerance and are no repetition."""
    return [
        verdict
        for verdict in verdicts
        if verdict.verdict == "contradicted" and verdict.survives and not verdict.claim.same
    ]


def _steps(ledger: Ledger) -> dict[str, list[Step]]:
    """Every relation run once, and solved for each claim it reads where it holds."""
    steps: dict[str, list[Step]] = {}
    prints = [ledger.sharpest(times) for times in (1, 2)]
    for claim in ledger.claims.values():
        for relation in claim.relations:
            environment, doubled = ({n: known[n] for n in relation.formula.names} for known in prints)
            step = _target_step(claim, relation, environment, doubled)
            steps.setdefault(claim.id, []).append(step)
            if step.outcome is Agreement.CONTRADICTED or relation.operator != "=" or step.role == "repeated":
                continue
            for name in sorted(set(relation.formula.names) & set(ledger.claims)):
                allowed = relation.formula.solve(name, claim.span(), environment)
                if allowed is not None:
                    steps.setdefault(name, []).append(_solved_step(ledger, name, claim, relation, allowed))
    return steps


def _target_step(
    claim: Claim, relation: Relation, environment: Mapping[str, Measure], doubled: Mapping[str, Measure]
) -> Step:
    derived = relation.formula.evaluate(environment).span
    outcome = compare(claim.span(), relation.operator, derived)
    if outcome is Agreement.SUPPORTED and relation.operator != "=" and not _is_bound(claim):
        outcome = Agreement.UNDECIDABLE  # one end given: a neighbour of the print would pass as well
    survives = outcome is Agreement.CONTRADICTED and _survives(claim, relation, doubled)
    operator = "" if relation.operator == "=" else f"{relation.operator} "
    text = f"{operator}{relation.formula.text}"
    repeats = relation.operator == "=" and relation.formula.text.strip() in environment
    return Step(
        text,
        "repeated" if repeats and outcome is Agreement.SUPPORTED else "derived",
        outcome,
        claim.span(),
        derived,
        tuple(relation.formula.names),
        relation.rule,
        relation.assuming,
        relation.note,
        survives,
    )


def _is_bound(claim: Claim) -> bool:
    """Whether the claim itself says no more than a bound or an order."""
    return claim.kind in ("ordering", "bound") or claim.hedge in OPEN_HEDGES


def _survives(claim: Claim, relation: Relation, doubled: Mapping[str, Measure]) -> bool:
    """Whether the contradiction stands with every tolerance doubled, the claim's and its inputs'."""
    derived = relation.formula.evaluate(doubled).span
    return compare(claim.span(2), relation.operator, derived) is Agreement.CONTRADICTED


def _solved_step(ledger: Ledger, name: str, claim: Claim, relation: Relation, allowed: Span) -> Step:
    source = ledger.claims[name]
    outcome = compare(source.span(), "=", allowed)
    if outcome is Agreement.SUPPORTED and allowed.relative_width > DECISION_WIDTH:
        outcome = Agreement.UNDECIDABLE
    text = f"{claim.id} = {relation.formula.text}, solved for {name}"
    inputs = (claim.id, *(other for other in relation.formula.names if other != name))
    return Step(text, "solved", outcome, source.span(), allowed, inputs, "", relation.assuming)


def _verdict(
    ledger: Ledger, claim: Claim, steps: list[Step], primary: _Primary | None, back: Backer | None
) -> Verdict:
    backings = tuple(b for binding in claim.bindings if back and (b := back(claim, binding)))
    verdict = Verdict(claim, _settle(steps, backings), tuple(steps), backings=backings)
    if verdict.verdict == "contradicted":
        verdict = _explain(verdict)
    elif any(map(_conditional, steps)):
        verdict = replace(_explain(verdict), code="K3C110", survives=False)
    elif verdict.verdict in ("undecidable", "unbacked"):
        verdict = replace(verdict, code="K3C202" if verdict.verdict == "unbacked" else "K3C203")
    verdict = _statistic(ledger, verdict)
    return _fidelity(verdict, primary) if primary else verdict


def _settle(steps: list[Step], backings: tuple[Backing, ...]) -> str:
    if any(map(_conditional, steps)):
        steps = [step for step in steps if step.outcome is Agreement.CONTRADICTED and not step.assuming]
        certain = any(step.role == "derived" for step in steps)
        return "contradicted" if certain else "undecidable"
    outcomes = {step.outcome for step in steps if step.role == "derived"}
    outcomes |= {backing.outcome for backing in backings if backing.tier == "measured"}
    solved = {step.outcome for step in steps if step.role == "solved"}
    if Agreement.CONTRADICTED in outcomes:
        return "contradicted"
    if Agreement.SUPPORTED in outcomes | solved:
        return "supported"
    if any(step.role == "repeated" for step in steps):
        return "repeats"
    return "undecidable" if outcomes | solved else "unbacked"


def _conditional(step: Step) -> bool:
    """A contradiction that needs something the source does not print decides nothing."""
    return step.role == "derived" and step.outcome is Agreement.CONTRADICTED and bool(step.assuming)


def _explain(verdict: Verdict) -> Verdict:
    against = [
        step for step in verdict.steps if step.outcome is Agreement.CONTRADICTED and step.role == "derived"
    ]
    if not against:
        return replace(
            verdict, code="K3C201", survives=True, change="The measured artifact gives another value."
        )
    step = max(against, key=lambda s: s.survives)
    change, slip = smallest_change(verdict.claim, step.derived, step.formula)
    code = step.rule or ("K3C104" if slip and step.survives else "K3C101" if step.survives else "K3C102")
    return replace(verdict, code=code, survives=step.survives, change=change)


def _statistic(ledger: Ledger, verdict: Verdict) -> Verdict:
    """A quantile of too few observations is not that quantile, whatever else holds."""
    claim = verdict.claim
    if not claim.statistic or not claim.observations:
        return verdict
    n = int(ledger.claims[claim.observations].value)
    if quantile_supported(float(Fraction(claim.statistic.removeprefix("p")) / 100), n):
        return verdict
    note = f"{claim.statistic} needs more than the n = {n} printed"
    settled = verdict.verdict if verdict.verdict == "contradicted" else "undecidable"
    return replace(verdict, verdict=settled, code="K3C105", notes=(*verdict.notes, note))


def _mention(ledger: Ledger, claim: Claim, base: Verdict, primary: _Primary | None) -> Verdict:
    """A mention shares the verdict of what it repeats, unless it prints another number.

    It supports nothing: where the number itself is supported, a mention of it `repeats`.
    """
    step = _repetition(claim, ledger.claims[claim.same])
    if step.outcome is Agreement.CONTRADICTED:
        change, slip = smallest_change(claim, step.derived, claim.same)
        code = "K3C104" if slip and step.survives else "K3C103" if step.survives else "K3C102"
        verdict = Verdict(claim, "contradicted", (step,), code, step.survives, change)
    else:
        said = "repeats" if base.verdict == "supported" else base.verdict
        verdict = Verdict(claim, said, (step,), base.code, base.survives, base.change, base.backings)
    return _fidelity(verdict, primary) if primary else verdict


def _repetition(claim: Claim, base: Claim) -> Step:
    """Equal prints at one precision must be equal numbers; otherwise their intervals must meet."""
    claimed, other = claim.span(), base.span()
    plain = not claim.hedge and not base.hedge and claim.ulp == base.ulp and claim.unit == base.unit
    other_unit = claim.unit.factor != base.unit.factor and claim.value == base.value
    if other_unit or (plain and claim.value != base.value):
        outcome = Agreement.CONTRADICTED
    else:
        outcome = Agreement.SUPPORTED if claimed.intersects(other) else Agreement.CONTRADICTED
    survives = outcome is Agreement.CONTRADICTED and not claim.span(2).intersects(other)
    return Step(
        f"repeats {base.id}", "repeated", outcome, claimed, other, (base.id,), "K3C103", survives=survives
    )


@dataclass(frozen=True, slots=True)
class _Primary:
    """The primary source of a secondary one, and its own verdicts."""

    ledger: Ledger
    verdicts: Mapping[str, Verdict]


def _fidelity(verdict: Verdict, primary: _Primary) -> Verdict:
    """How a number was carried over: faithful, altered, unit changed, invented, context lost."""
    claim = verdict.claim
    source = primary.ledger.claims.get(claim.primary)
    if not claim.primary:
        return verdict
    if source is None:
        return replace(verdict, fidelity="invented", verdict="contradicted", code="K3C303", survives=True)
    step = replace(_repetition(claim, source), formula=f"{primary.ledger.id}: {source.id}", inputs=())
    verdict = replace(verdict, steps=(step, *verdict.steps))
    as_printed = f"{source.printed} {source.unit}, as in the primary source"
    if claim.unit.dimension != source.unit.dimension or claim.unit.factor != source.unit.factor:
        return replace(
            verdict,
            fidelity="unit changed",
            verdict="contradicted",
            code="K3C302",
            survives=True,
            change=as_printed,
        )
    if step.outcome is Agreement.CONTRADICTED:
        return replace(
            verdict,
            fidelity="altered",
            verdict="contradicted",
            code="K3C301",
            survives=step.survives,
            change=as_printed,
        )
    own = primary.verdicts[source.id]
    said = "repeats" if own.verdict == "supported" else own.verdict
    note = f"{said} in the primary source" if said != "repeats" else ""
    kept = replace(
        verdict, verdict=said, code=own.code, survives=own.survives, change=own.change,
        notes=tuple(filter(None, (claim.context, note))),
    )  # fmt: skip
    if claim.context:
        return replace(kept, fidelity="context lost", code="K3C304")
    return replace(kept, fidelity="faithful")
