"""What the pattern of wrong needles points at: transport race, recycled state, or the model itself.

The publication's two defects differ in when they strike (Challenge 3). A write that is read before it is
visible strikes concurrent requests from the first wave on, however often a place was used. A recurrent
state that
is not cleared strikes places that were used before: failures grow with reuse and stop when a request runs
alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from k3repro.probes.needles import FOREIGN, LEAK, MISS, Asked, Score

_WRONG = frozenset({MISS, LEAK, FOREIGN})
_LEVEL = 0.05
_ENOUGH = 8  # with fewer failures no test would see a growth
CLEAN = "clean"


def signature(asked: Sequence[Asked], scores: Sequence[Score], concurrency: Mapping[str, int]) -> str:
    """A pointer for the next experiment, not a diagnosis. `concurrency`: request id -> that of its wave."""
    bad = {entry.request_id: entry for entry in scores if entry.outcome in _WRONG}
    if not bad:
        return CLEAN
    timings = {leak.timing for entry in bad.values() for leak in entry.leaks}
    if timings == {"finished"}:
        return "state recycled: replies carry needles of finished requests"
    if "concurrent" in timings and _one_way(asked, bad.values()):
        return "state recycled: replies carry needles of requests that ended before them, never the reverse"
    if "concurrent" in timings:
        return "concurrent mix-up: replies carry needles of requests in flight at the same time"
    if not all(concurrency[name] > 1 for name in bad):
        return "also at concurrency one: the model, the prompt or the numerics"
    return "only under concurrency; " + _by_reuse(asked, set(bad), concurrency)


def _one_way(asked: Sequence[Asked], bad: Iterable[Score]) -> bool:
    """Whether leaks always come from a request that ended first: a hand-over of a place, not an exchange."""
    done = {entry.request_id: entry.done_ns for entry in asked}
    pairs = [(done[leak.owner], done[leak.asker]) for entry in bad for leak in entry.leaks]
    # By chance five pairs all point the same way once in thirty-two.
    before = sum(owner < asker for owner, asker in pairs)
    return before >= 5 and all(owner <= asker for owner, asker in pairs)


def _by_reuse(asked: Sequence[Asked], bad: set[str], concurrency: Mapping[str, int]) -> str:
    """Race or recycle: do requests fail more often the more there were since a request last ran alone?"""
    wear = _wear(asked, concurrency)
    middle = max(wear.values()) / 2
    early = [name for name, before in wear.items() if before < middle]
    late = [name for name, before in wear.items() if before >= middle]
    a, b = len(bad.intersection(late)), len(bad.intersection(early))
    counts = f"{b} of {len(early)} failed early after a request alone, {a} of {len(late)} late"
    if early and late and fisher(a, len(late), b, len(early)) <= _LEVEL:
        return f"failures grow with reuse, as with a state that is not cleared ({counts})"
    if early and late and len(bad) >= _ENOUGH and b:
        return f"failures do not grow with reuse, as with a transport race ({counts})"
    return f"too few to tell a transport race from a recycled state ({counts}): run with --reuse 4"


def _wear(asked: Sequence[Asked], concurrency: Mapping[str, int]) -> dict[str, int]:
    """How many concurrent requests had been sent since a request last ran alone, for each concurrent
    request.
    """
    wear: dict[str, int] = {}
    since = 0
    for entry in sorted(asked, key=lambda entry: (entry.sent_ns, entry.request_id)):
        if concurrency[entry.request_id] == 1:
            since = 0
            continue
        wear[entry.request_id] = since
        since += 1
    return wear


def fisher(a: int, of_a: int, b: int, of_b: int) -> float:
    """One-sided exact test: chance of at least `a` of `of_a` when both groups fail alike (hypergeometric)."""
    total, failures = of_a + of_b, a + b
    ways = math.comb(total, failures)
    most = min(of_a, failures)
    return sum(math.comb(of_a, k) * math.comb(of_b, failures - k) for k in range(a, most + 1)) / ways
