"""What the levels of a published table contradict, each with its arithmetic. One function a kind.

Kinds: `not-offered` (a level that had fewer requests in flight than it says), `length` and `output-length`
(requests shorter than the stated workload), `above-dense-peak` (a rate the hardware cannot compute),
`bound-trend` and `bound-slack` (something named as the limit that is used less as the rate grows, or hardly
at all), `ceiling-not-shared` (a limit said to be common, used unequally).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from k3repro.printed import Span
from k3repro.studies.node._demand import Demand
from k3repro.studies.node._in_flight import SLACK, Inference, LevelFlight

__all__ = ["KINDS", "Contradiction", "Step", "contradictions", "shared_ceilings"]

KINDS = (
    "not-offered", "length", "output-length", "above-dense-peak", "bound-trend", "bound-slack",
    "ceiling-not-shared",
)  # fmt: skip
HALF = Fraction(1, 2)
"""A resource of which less than this is used at the peak is not what binds there."""
UNEQUAL = 2
"""From this factor between the uses of one resource on, a ceiling is not shared."""
_RULES = {
    "requests": ("fewer requests were sent than should be in flight", "nothing"),
    "little": (
        "rate x p99 leaves fewer in flight than the length that lower levels share",
        "a request is as long on every level, and p99 over mean differs by less than a tenth between levels",
    ),
    "flat": (
        "more users, the same rate and the same p99: the same number in flight as on the lowest level",
        "p99 over mean differs by less than a tenth between the two levels",
    ),
}


@dataclass(frozen=True, slots=True)
class Step:
    """One line of arithmetic: what, how, its interval and unit."""

    what: str
    formula: str
    span: Span
    unit: str


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A finding: what the table says (`limit`), what its own cells give (`span`), and the steps between.

    `concurrency` is None for a whole ladder. `assuming` is what does not stand in the table.
    """

    kind: str
    series: str
    model: str
    concurrency: int | None
    what: str
    span: Span
    limit: Span
    unit: str
    assuming: str
    steps: tuple[Step, ...]

    @property
    def survives(self) -> bool:
        """Whether it stands with every interval twice as wide, and twice the slack where slack is assumed."""
        ours, theirs = _doubled(self.span), _doubled(self.limit)
        if self.kind in ("not-offered", "length", "output-length"):
            return ours.high < self.limit.low * (1 - 2 * SLACK)
        return not ours.intersects(theirs)


def _doubled(span: Span) -> Span:
    extra = Fraction(span.width) / 2
    return Span(span.low - extra, span.high + extra)


def contradictions(
    inference: Inference, needs: Sequence[Demand], bounds: Sequence[Mapping[str, Any]] = ()
) -> list[Contradiction]:
    """Every contradiction within one ladder. `bounds`: rows resource, mode, saturation of the publication."""
    found = [_short(inference, flight) for flight in inference.flights if flight.short]
    found += _length(inference)
    found += _output_length(inference)
    found += _compute(inference, needs)
    for bound in bounds:
        if bound["resource"] == "hbm" and bound["mode"] == inference.ladder.mode:
            found += _bound(inference, needs, int(bound["saturation"]))
    return found


def _make(
    inference: Inference, kind: str, level: int | None, what: str, span: Span, limit: Span, unit: str,
    assuming: str, *steps: Step,
) -> Contradiction:  # fmt: skip
    ladder = inference.ladder
    return Contradiction(kind, ladder.name, ladder.model, level, what, span, limit, unit, assuming, steps)


def _work(flight: LevelFlight) -> list[Step]:
    level, work = flight.level, flight.level.token_seconds
    steps = [Step("total rate", "as printed", level.total, "tokens/s")]
    if level.latency and work:
        steps += [
            Step("p99", "as printed", level.latency, "s"),
            Step("tokens in flight, at most", "rate x p99", work, "tokens"),
        ]
    return steps


def _short(inference: Inference, flight: LevelFlight) -> Contradiction:
    what, assuming = _RULES[flight.short]
    stated = Span.point(flight.level.concurrency)
    assert flight.in_flight is not None
    steps = [] if flight.short == "requests" else _work(flight)
    if flight.short == "requests":
        sent = Span.point(inference.ladder.requests or 0)
        steps.append(Step("requests of a level", "as printed", sent, "requests"))
    if flight.short == "little" and inference.length:
        agree = ", ".join(map(str, inference.agreeing))
        steps.append(
            Step(f"tokens per request on levels {agree}", "rate x p99 / concurrency", inference.length,
                 "tokens/request")
        )  # fmt: skip
    steps.append(Step("in flight, at most", flight.short, flight.in_flight, "requests"))
    return _make(
        inference, "not-offered", flight.level.concurrency, what, flight.in_flight, stated, "requests",
        assuming, *steps,
    )  # fmt: skip


def _tightest(inference: Inference) -> tuple[LevelFlight, Span] | None:
    """The level that leaves a request the fewest tokens, among those that had their requests in flight."""
    ladder, found = inference.ladder, None
    for flight in inference.flights:
        work, agrees = flight.level.token_seconds, flight.level.concurrency in inference.agreeing
        if work is None or flight.short in ("little", "flat") or (inference.agreeing and not agrees):
            continue
        each = work.scaled(Fraction(1, ladder.offered(flight.level)))
        if found is None or each.high < found[1].high:
            found = (flight, each)
    return found


def _length(inference: Inference) -> Iterator[Contradiction]:
    """Stated prompt plus reply against what rate x p99 leaves a request; text only, images are not stated."""
    ladder, tight = inference.ladder, _tightest(inference)
    stated = (ladder.isl or 0) + (ladder.osl or 0)
    if tight is None or not ladder.text_only or not ladder.isl or not stated:
        return
    flight, each = tight
    if each.high >= stated * (1 - SLACK):
        return
    what = "at its concurrency a request holds fewer tokens than the stated workload"
    if inference.length is None:
        what += ", or fewer requests were in flight"
    offered = Span.point(ladder.offered(flight.level))
    yield _make(
        inference, "length", flight.level.concurrency, what, each, Span.point(stated), "tokens/request",
        "the mean latency is not above the printed p99", *_work(flight),
        Step("requests in flight", "concurrency, or the requests of a level", offered, "requests"),
        Step("tokens per request, at most", "tokens in flight / requests in flight", each, "tokens/request"),
    )  # fmt: skip


def _output_length(inference: Inference) -> Iterator[Contradiction]:
    ladder, tight = inference.ladder, _tightest(inference)
    if tight is None or not ladder.osl or tight[0].level.output is None:
        return
    flight, each = tight
    output = flight.level.output
    assert output is not None
    reply = output / flight.level.total * each
    if reply.high >= ladder.osl * (1 - SLACK):
        return
    yield _make(
        inference, "output-length", flight.level.concurrency, "replies are shorter than stated", reply,
        Span.point(ladder.osl), "tokens/request", "the mean latency is not above the printed p99",
        *_work(flight), Step("output rate", "as printed", output, "tokens/s"),
        Step("reply tokens per request, at most", "output rate x p99 / requests in flight", reply,
             "tokens/request"),
    )  # fmt: skip


def _compute(inference: Inference, needs: Sequence[Demand]) -> Iterator[Contradiction]:
    over = [need for need in needs if need.compute.low > 1]
    if not over:
        return
    worst = max(over, key=lambda need: need.compute.low)
    level = worst.flight.level
    assert worst.uncomputed is not None
    yield _make(
        inference, "above-dense-peak", level.concurrency,
        "the rate is above the dense peak of the GPUs: part of the tokens cannot have been computed",
        worst.compute, Span.point(1), "of the dense peak",
        "every counted token is computed; attention, head and encoder left out in its favour",
        Step("total rate", "as printed", level.total, "tokens/s"),
        Step("share of the dense peak", "2 x parameters x rate / peak of all GPUs", worst.compute, "1"),
        Step("tokens not computed, at least", "1 - 1 / share (a prefix cache would do it)",
             worst.uncomputed, "1"),
    )  # fmt: skip


def _bound(inference: Inference, needs: Sequence[Demand], saturation: int) -> Iterator[Contradiction]:
    """Memory named as the limit from `saturation` on: its use there against that below, and against half."""
    known = [need for need in needs if need.memory is not None]
    after = [need for need in known if need.flight.level.concurrency >= saturation]
    if not after:
        return
    peak = max(after, key=lambda need: need.flight.level.total.low)
    yield from _trend(inference, known, peak)
    assert peak.memory is not None
    if peak.memory.high < HALF:
        yield _make(
            inference, "bound-slack", peak.flight.level.concurrency,
            "memory bandwidth is named as the limit, and most of it is left over", peak.memory,
            Span.point(HALF), "of the bandwidth", _STEPS_SHARED, *_memory_steps(peak),
        )  # fmt: skip


_STEPS_SHARED = "prompts are worked on in the same steps as replies; routing is even"


def _trend(inference: Inference, known: Sequence[Demand], peak: Demand) -> Iterator[Contradiction]:
    assert peak.memory is not None
    for before in known:
        lower = before.flight.level.concurrency < peak.flight.level.concurrency
        slower = before.flight.level.total.high < peak.flight.level.total.low
        if lower and slower and before.memory is not None and peak.memory.high < before.memory.low:
            yield _make(
                inference, "bound-trend", peak.flight.level.concurrency,
                "memory bandwidth is named as the limit, and it is used less while the rate grows",
                peak.memory, before.memory, "of the bandwidth", _STEPS_SHARED,
                *_memory_steps(before), *_memory_steps(peak),
            )  # fmt: skip
            return


def _memory_steps(need: Demand, of: str = "") -> list[Step]:
    level, flying, memory = need.flight.level, need.flight.in_flight, need.memory
    assert flying is not None and memory is not None
    name = f"{of} level {level.concurrency}".strip()
    steps = [Step(f"{name}: total rate", "as printed", level.total, "tokens/s")]
    if level.output is not None:
        steps.append(Step(f"{name}: steps", "output rate / in flight", level.output / flying, "1/s"))
    return [
        *steps,
        Step(f"{name}: in flight", "as inferred", flying, "requests"),
        Step(f"{name}: share of the bandwidth", "steps x (weights touched + keys in flight) / bandwidth",
             memory, "1"),
    ]  # fmt: skip


def shared_ceilings(
    read: Sequence[tuple[Inference, Sequence[Demand]]], bounds: Sequence[Mapping[str, Any]]
) -> list[Contradiction]:
    """A memory ceiling said to be common to the models of a mode, of which they use unequal shares."""
    found = []
    for bound in bounds:
        peaks = [
            (_peak(needs, int(bound["saturation"])), inference.ladder.model)
            for inference, needs in read
            if bound["resource"] == "hbm" and inference.ladder.mode == bound["mode"]
        ]
        used = [(peak, peak.memory, model) for peak, model in peaks if peak and peak.memory]
        if len(used) < 2:
            continue
        most, least = max(used, key=lambda item: item[1].low), min(used, key=lambda item: item[1].high)
        ratio = most[1] / least[1]
        if ratio.low > UNEQUAL:
            found.append(
                Contradiction(
                    "ceiling-not-shared", str(bound["mode"]), "all", None,
                    "the models use the bandwidth that is said to stop them all very unequally",
                    ratio, Span.point(UNEQUAL), "x", _STEPS_SHARED,
                    (*_memory_steps(most[0], most[2]), *_memory_steps(least[0], least[2])),
                )
            )  # fmt: skip
    return found


def _peak(needs: Sequence[Demand], saturation: int) -> Demand | None:
    after = [n for n in needs if n.memory is not None and n.flight.level.concurrency >= saturation]
    return max(after, key=lambda need: need.flight.level.total.low, default=None)
