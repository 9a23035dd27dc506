"""decode-context: the time between tokens against what is resident: one request, and waves of unlike lengths.

One request at each context tells what a resident token costs a decode step; a wave of unlike lengths tells
whether a step pays for its longest sequence or for the sum of all. A wave sends its longest sequence first
and each next one when the one before should have its first token, so that all decode together; gaps count
only then, without the first few of each.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Annotated, Any

from k3repro.client import REQUESTS_TABLE, Request
from k3repro.errors import UsageError
from k3repro.probes._session import Session, plain_prompt
from k3repro.probes.crosscheck import event_reasons
from k3repro.probes.plan import Rung
from k3repro.probes.tables import Construction, RungRow
from k3repro.store import Col, Row, Schema
from k3repro.units import order_free_sum, parse_tokens, quantile, quantile_supported

NAME = "decode-context"
PERFORMANCE = True
EXAMPLES = (
    "--target twin:mi325x",
    "--target http://127.0.0.1:8000 --context 1K,64K,200K --mixed 4x16K,64K+3x1K",
)
HELP = {
    "mixed": "Waves of unlike contexts that decode together: 64K+3x1K,4x16K.",
    "settle": "Gaps left out at the start of each reply.",
}
# Of the detection matrix: small enough for thousands of trials, with requests in flight together.
TRIAL = {"context": (1000, 6000), "mixed": ("2x1K",), "osl": 24}


class StepRow(Row, table="steps", key=("rung",)):
    """One row per wave: what was resident, and the time between tokens."""

    rung: str
    sequences: Annotated[int | None, Col("requests", "decoding together")]
    longest: Annotated[float | None, Col("tokens", "in the longest sequence, mean over the gaps")] = None
    total: Annotated[float | None, Col("tokens", "in all sequences together, mean over the gaps")] = None
    gaps: Annotated[int | None, Col(doc="gaps between tokens that count")]
    gap_p50_s: Annotated[float | None, Col("s", "median; NULL below ten gaps")] = None
    gap_mean_s: Annotated[float | None, Col("s")] = None
    gap_low_s: Annotated[float | None, Col("s", "shortest")] = None
    gap_high_s: Annotated[float | None, Col("s", "longest")] = None


SCHEMA = Schema((REQUESTS_TABLE, RungRow.TABLE, Construction.TABLE, StepRow.TABLE))
# Prompts of a wave differ in length on purpose, a short one ends before a long one began, and how the context
# came to be resident (prefilled, cached, filled by a connector) is not what is measured.
_RESULTS = frozenset({"prompts", "concurrency", "cache"})
_MORE = 1.25  # replies of a wave are longer by the other sequences' times to first token, and a quarter


@dataclass(frozen=True, slots=True)
class Parameters:
    """Contexts of one request (prompt and reply), mixed waves, reply length, gaps left out at the start.

    A mixed wave is written ``64K+3x1K``: one sequence of 64,000 tokens with three of 1,000. Its replies are
    longer by what its first sequence decodes while the others are prefilled, as single requests took.
    """

    context: tuple[int, ...] = (1_000, 16_000, 32_000, 64_000, 128_000, 200_000, 300_000, 400_000)
    mixed: tuple[str, ...] = ("4x1K", "64K+3x1K", "4x16K", "2x64K")
    osl: int = 40
    settle: int = 8
    timeout_s: float = 1800.0


@dataclass(frozen=True, slots=True)
class _Wave:
    """Contexts that decode together."""

    rung: Rung
    contexts: tuple[int, ...]


def contexts_of(text: str) -> tuple[int, ...]:
    """The contexts of a mixed wave, longest first.

    Raises:
        UsageError: not of the form ``64K+3x1K``.
    """
    found: list[int] = []
    for part in text.split("+"):
        count, times, size = part.strip().rpartition("x")
        if times and not count.strip().isdigit():
            raise UsageError(f"{text!r} is not a mixed wave", fix="Write it like 64K+3x1K.")
        found += [parse_tokens(size)] * (int(count) if times else 1)
    return tuple(sorted(found, reverse=True))


def _waves(parameters: Parameters) -> list[_Wave]:
    if not parameters.context or parameters.osl < parameters.settle + 3:
        fix = f"For example --context 1K,64K --osl {parameters.settle + 32}."
        raise UsageError("decode against context needs contexts and gaps that count", fix=fix)
    mixes: list[tuple[str, tuple[int, ...]]] = [
        (f"context={context}", (context,)) for context in sorted(set(parameters.context))
    ]
    mixes += [(f"mixed={text}", contexts_of(text)) for text in parameters.mixed]
    return [_wave(name, contexts, parameters) for name, contexts in mixes]


def _wave(name: str, contexts: tuple[int, ...], parameters: Parameters) -> _Wave:
    if min(contexts) <= 2 * parameters.osl:
        raise UsageError(f"{name}: a context is longer than two replies", fix="Ask for longer contexts.")
    prompt = round(order_free_sum(contexts) / len(contexts)) - parameters.osl
    count = len(contexts)
    return _Wave(
        Rung(name, count, count, prompt, parameters.osl, timeout_s=parameters.timeout_s,
             stall_s=parameters.timeout_s), contexts,
    )  # fmt: skip


def plan(parameters: Parameters) -> list[Rung]:
    """One wave a context, short ones first, then the mixed waves."""
    return [wave.rung for wave in _waves(parameters)]


def procedure(session: Session, parameters: Parameters) -> None:
    """Calibrate, canary, one request at each context, the mixed waves, canary."""
    session.calibrate()
    session.canary("before")
    for wave in _waves(parameters):
        _step(session, wave, parameters)
    session.canary("after")


def _step(session: Session, wave: _Wave, parameters: Parameters) -> None:
    waits = _waits(session, wave.contexts)
    ahead = _MORE * order_free_sum(waits[1:]) / _gap(session, wave.contexts[0])
    reply = parameters.osl + math.ceil(ahead)
    rung = replace(wave.rung, output_tokens=reply)
    arrivals: dict[str, list[int]] = {}
    requests, due = [], 0  # nanoseconds after the wave begins
    for index, context in enumerate(wave.contexts):
        name = f"{rung.name}-{index:04d}"
        prompt = plain_prompt(session.prompt_seed(name), session.sizing.words(context - parameters.osl))
        times = arrivals.setdefault(name, [])
        requests.append(Request(name, prompt, reply, intended_ns=due, on_token=times.append))
        due += round(waits[index] * 1e9)
    session.rung(
        rung, requests, allow=_RESULTS,
        extra=lambda rows: {"steps": [step_row(rung.name, rows, arrivals, parameters.settle)]},
    )  # fmt: skip


def _waits(session: Session, contexts: Sequence[int]) -> list[float]:
    """Seconds to the first token of each sequence of a wave, as the single request nearest in size took;
    zero for a single request.
    """
    if len(contexts) == 1:
        return [0.0]
    took = {
        row["prompt_tokens"]: (row["first_token_ns"] - row["sent_ns"]) / 1e9
        for row in session.run.rows("requests")
        if row["first_token_ns"] and row["prompt_tokens"]
    }
    # The nearest by ratio: a prompt is shorter than its context by the reply.
    return [took[min(took, key=lambda size: abs(math.log(size / context)))] for context in contexts]


def _gap(session: Session, context: int) -> float:
    """The gap of the single request nearest in size; a second where none is known."""
    known = {row["longest"]: row["gap_mean_s"] for row in session.run.rows("steps") if row.get("gap_mean_s")}
    return known[min(known, key=lambda size: abs(math.log(size / context)))] if known else 1.0


def step_row(
    rung: str, rows: Sequence[Mapping[str, Any]], arrivals: Mapping[str, Sequence[int]], settle: int
) -> StepRow:
    """The row of one wave from the arrival times (ns) of its token events.

    A gap counts while every sequence decodes and after the first `settle` gaps of its own sequence.
    """
    prompts = {row["request_id"]: row["prompt_tokens"] or 0 for row in rows}
    streams = {name: times for name, times in arrivals.items() if times}
    if len(streams) < len(prompts):
        return StepRow(rung=rung, sequences=len(prompts), gaps=0)
    begin = max(times[min(settle, len(times) - 1)] for times in streams.values())
    end = min(times[-1] for times in streams.values())
    gaps: list[float] = []
    held: list[float] = []
    for name, times in streams.items():
        inside = [i for i, (a, b) in enumerate(pairwise(times)) if a >= begin and b <= end]
        gaps += [(times[i + 1] - times[i]) / 1e9 for i in inside]
        held.append(prompts[name] + (order_free_sum(inside) / len(inside) + 1 if inside else 0))
    return StepRow(
        rung=rung, sequences=len(prompts), longest=max(held), total=order_free_sum(held), gaps=len(gaps),
        gap_p50_s=quantile(gaps, 0.5) if quantile_supported(0.5, len(gaps)) else None,
        gap_mean_s=order_free_sum(gaps) / len(gaps) if gaps else None,
        gap_low_s=min(gaps, default=None), gap_high_s=max(gaps, default=None),
    )  # fmt: skip


def verdict(session: Session, parameters: Parameters) -> dict[str, Any]:
    """Valid when every wave is, when events are tokens, and when every wave has gaps that count."""
    empty = [row["rung"] for row in session.run.rows("steps") if not row["gaps"]]
    reasons = [f"{rung}: its requests never decoded together" for rung in empty]
    return session.verdict([*event_reasons(session.run.rows("requests")), *reasons])
