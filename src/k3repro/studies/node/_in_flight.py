"""How many requests a level really had in flight and how long they were, from rate and latency alone.

Little's law in tokens: rate x mean latency = requests in flight x tokens per request. A table prints p99,
which is not below the mean, so rate x p99 bounds the right side from above. Levels of one ladder serve one
workload: where rate x p99 / concurrency agrees between levels, it is their common length, and levels that
fall short of it had fewer requests in flight than they say.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from k3repro.printed import HEDGES, Span
from k3repro.studies.node._ladder import Ladder, Level

__all__ = ["SLACK", "Inference", "LevelFlight", "infer"]

SLACK = HEDGES["about"].below or Fraction(0)
"""What lengths and the ratio of p99 to mean may differ by between levels of one ladder, by assumption."""
TAIL = Fraction(3, 2)
"""From this ratio of p99 to mean on, a slow wave and not the load made a level's p99."""


@dataclass(frozen=True, slots=True)
class LevelFlight:
    """One level read: requests in flight, what shows that it fell short, whether it can be a steady state.

    `short` is "" or the rule: "requests" (fewer than its concurrency were sent), "little" (fewer in flight
    than the common length leaves), "flat" (more users, same rate and same latency). `tail`: p99 over the
    mean, at least, by the stated length where none is inferred. `steady`: steady, ramp, burst, tail or
    unknown.
    """

    level: Level
    in_flight: Span | None
    short: str
    tail: Span | None
    steady: str


@dataclass(frozen=True, slots=True)
class Inference:
    """A ladder read: tokens per request, the levels that agree on it, reply tokens, what higher levels share.

    `length` is an upper bound as far as p99 is above the mean. `cap`: requests in flight on the levels that
    fell short, where several agree.
    """

    ladder: Ladder
    length: Span | None
    agreeing: tuple[int, ...]
    output_length: Span | None
    cap: Span | None
    flights: tuple[LevelFlight, ...]


def infer(ladder: Ladder) -> Inference:
    """Read a ladder; nothing but its own cells is used."""
    agreeing = _agreeing(ladder)
    length = _hull([_per_request(ladder, level) for level in agreeing])
    flights = tuple(_flight(ladder, level, length) for level in ladder.levels)
    shorts = [flight.in_flight for flight in flights if flight.short and flight.in_flight]
    cap = _hull(list(shorts))
    if cap is None or len(shorts) < 2 or cap.high > cap.low * (1 + SLACK):
        cap = None
    replies = [_reply_share(level) * length for level in agreeing if level.output and length]
    return Inference(
        ladder, length, tuple(level.concurrency for level in agreeing), _hull(list(replies)), cap, flights
    )


def _reply_share(level: Level) -> Span:
    assert level.output is not None
    return level.output / level.total


def _per_request(ladder: Ladder, level: Level) -> Span | None:
    work = level.token_seconds
    return work.scaled(Fraction(1, ladder.offered(level))) if work else None


def _hull(spans: list[Span | None]) -> Span | None:
    known = [span for span in spans if span is not None]
    return Span(min(span.low for span in known), max(span.high for span in known)) if known else None


def _agreeing(ladder: Ladder) -> list[Level]:
    """The longest run of neighbouring levels whose tokens per request agree; lowest first.

    At least two different loads have to agree: levels that all sent the same requests agree whatever was in
    flight.
    """
    best: list[Level] = []
    levels = [level for level in ladder.levels if level.latency]
    for start in range(len(levels)):
        run: list[Level] = []
        for level in levels[start:]:
            hull = _hull([_per_request(ladder, item) for item in [*run, level]])
            if hull is None or hull.high > hull.low * (1 + SLACK):
                break
            run.append(level)
        loads = {ladder.offered(level) for level in run}
        best = run if len(loads) > 1 and len(run) > len(best) else best
    return best


def _flight(ladder: Ladder, level: Level, length: Span | None) -> LevelFlight:
    offered, work = ladder.offered(level), level.token_seconds
    by_length = work / length if work and length else None
    short, in_flight = _shortfall(ladder, level, by_length)
    tail = _tail(ladder, work, length, offered)
    if in_flight is None and by_length is not None:
        in_flight = Span(min(by_length.low, Fraction(offered)), min(by_length.high, Fraction(offered)))
    return LevelFlight(level, in_flight, short, tail, _steady(ladder, level, short, tail))


def _tail(ladder: Ladder, work: Span | None, length: Span | None, offered: int) -> Span | None:
    """p99 over the mean, at least: tokens a request would hold over those it is inferred or stated to."""
    stated = (ladder.isl or 0) + (ladder.osl or 0) if ladder.isl and ladder.osl and ladder.text_only else 0
    whole = length or (Span.point(stated) if stated else None)
    if work is None or whole is None:
        return None
    tail = (work / whole).scaled(Fraction(1, offered))
    return tail if tail.high > 1 else None


def _shortfall(ladder: Ladder, level: Level, by_length: Span | None) -> tuple[str, Span | None]:
    wanted = Fraction(level.concurrency)
    if ladder.requests is not None and ladder.requests < level.concurrency:
        return "requests", Span(Fraction(0), Fraction(ladder.requests))
    if by_length is not None and by_length.high < wanted * (1 - SLACK):
        return "little", by_length
    if by_length is None:
        flat = _flat(ladder, level)
        if flat is not None and flat.high < wanted * (1 - SLACK):
            return "flat", flat
    return "", None


def _flat(ladder: Ladder, level: Level) -> Span | None:
    """Requests in flight at a level whose rate and latency are those of the lowest level; None otherwise."""
    first = next((item for item in ladder.levels if item.latency), level)
    before, now = first.token_seconds, level.token_seconds
    if before is None or now is None or first.latency is None or level.latency is None:
        return None
    still = level.total.low <= first.total.high * (1 + SLACK)
    if first is level or not still or level.latency.low > first.latency.high * (1 + SLACK):
        return None
    most = (now / before).scaled(Fraction(ladder.offered(first)))
    return Span(Fraction(0), most.high)


def _steady(ladder: Ladder, level: Level, short: str, tail: Span | None) -> str:
    if tail is not None and tail.low >= TAIL:
        return "tail"
    if short:
        return "burst"
    if ladder.requests is None:
        return "unknown"
    waves = Fraction(ladder.requests, level.concurrency)
    return "steady" if waves >= 2 else "ramp" if waves > 1 else "burst"
