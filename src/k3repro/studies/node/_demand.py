"""What the levels of a ladder need of the hardware: dense compute, memory traffic, experts touched."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from k3repro.capacity import Serving
from k3repro.printed import Span
from k3repro.studies.node._in_flight import Inference, LevelFlight

__all__ = ["Demand", "demands"]


@dataclass(frozen=True, slots=True)
class Demand:
    """Needs of one level as shares of the dense peak and of the memory bandwidth of all GPUs.

    `compute` takes every token as computed; `uncomputed` is the share of tokens that cannot have been, where
    that exceeds the peak. `memory` counts decode steps (weights touched once a step, keys of all in flight)
    and is None where replies, lengths or the number in flight are not known.
    """

    flight: LevelFlight
    compute: Span
    memory: Span | None
    experts: Span | None
    uncomputed: Span | None


def demands(inference: Inference, serving: Serving) -> tuple[Demand, ...]:
    """Needs of every level of a ladder, lowest concurrency first."""
    return tuple(_demand(inference, flight, serving) for flight in inference.flights)


def _demand(inference: Inference, flight: LevelFlight, serving: Serving) -> Demand:
    compute = flight.level.total.scaled(_exact(serving.flops_of(1.0) / serving.flops))
    uncomputed = None
    if compute.low > 1:
        uncomputed = Span.point(1) - Span.point(1) / compute
    memory = _memory(inference, flight, serving)
    experts = None
    if serving.passes.experts and flight.in_flight:
        ends = (flight.in_flight.low, flight.in_flight.high)
        experts = Span(*(_exact(serving.passes.experts_touched(float(end))) for end in ends))
    return Demand(flight, compute, memory, experts, uncomputed)


def _memory(inference: Inference, flight: LevelFlight, serving: Serving) -> Span | None:
    """Rises with the reply rate and the context, falls with the number in flight that shares a step."""
    replies, context = _replies(inference, flight), _context(inference)
    flying = flight.in_flight
    if replies is None or context is None or flying is None or flying.low <= 0:
        return None
    low = serving.bytes_of(float(replies.low), float(flying.high), float(context.low))
    high = serving.bytes_of(float(replies.high), float(flying.low), float(context.high))
    return Span(_exact(low / serving.bytes_per_s), _exact(high / serving.bytes_per_s))


def _replies(inference: Inference, flight: LevelFlight) -> Span | None:
    """Reply tokens/s as printed; else the share of the stated reply in the stated or inferred length."""
    level, ladder = flight.level, inference.ladder
    if level.output is not None:
        return level.output
    if ladder.isl is None or ladder.osl is None or not ladder.text_only:
        return None
    share = Fraction(ladder.osl, ladder.isl + ladder.osl)
    most = share
    if inference.length is not None:
        most = max(share, min(Fraction(1), ladder.osl / Fraction(inference.length.low)))
    return level.total * Span(share, most)


def _context(inference: Inference) -> Span | None:
    """Mean tokens a sequence holds while it is decoded: its prompt and half of its reply."""
    ladder, length = inference.ladder, inference.length
    if length is not None:
        reply = inference.output_length or Span.point(ladder.osl or 0)
        return Span(max(Fraction(0), (length - reply.scaled(Fraction(1, 2))).low), length.high)
    if ladder.isl is None or ladder.osl is None:
        return None
    return Span.point(Fraction(2 * ladder.isl + ladder.osl, 2))


def _exact(value: float) -> Fraction:
    return Fraction(value)
