"""The one ladder: steps of concurrency, users, output length or request rate, on plain prompts.

Each probe that climbs it declares its parameters and its rungs; schema, procedure and verdict are here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from k3repro.client import REQUESTS_TABLE
from k3repro.errors import UsageError
from k3repro.probes._session import Session
from k3repro.probes.plan import LATER, Rung
from k3repro.probes.tables import Construction, RungRow
from k3repro.store import Rows, Schema, Table
from k3repro.units import thousands
from k3repro.workload import Corpus, OpenLoop, Workload, parse_lengths, read_corpus

__all__ = ["SCHEMA", "Length", "Load", "Steps", "by_load", "climb", "climbing", "rates", "schema_with"]

SCHEMA = Schema((REQUESTS_TABLE, RungRow.TABLE, Construction.TABLE))
Length = int | str
"""Tokens: a number, or a distribution as `k3repro.workload.parse_lengths` reads it."""
MOST_ARRIVALS = 100_000
EARLY_GAIN = 0.05
"""An early stop: two steps in a row that raise the best output rate by no more than this share."""
Procedure = Callable[[Session, Any], None]
Verdict = Callable[[Session, Any], dict[str, Any]]
Extra = Callable[[Rung, list[dict[str, Any]]], Rows]


@dataclass(frozen=True, slots=True)
class Steps:
    """What every ladder takes.

    `natural`: replies end where the model ends them. `max_seconds`: no rung starts later than that after the
    first one (0: no limit). `early_stop`: two steps that bring no more output end the ladder.
    """

    timeout_s: float = 1800.0
    natural: bool = field(default=False, metadata=LATER)
    max_seconds: float = field(default=0.0, metadata=LATER)
    early_stop: bool = field(default=False, metadata=LATER)


@dataclass(frozen=True, slots=True)
class Load(Steps):
    """A ladder over concurrency (closed loop) or `rate` (open loop), of one shape or of a `dataset`.

    `duration_s` and `ramp_s` belong to the open loop; `warmup` requests precede each step, unmeasured.
    """

    isl: Length = 1024
    osl: Length = 256
    concurrency: tuple[int, ...] = (1, 8, 64)
    rate: tuple[float, ...] = field(default=(), metadata=LATER)
    arrival: str = field(default="poisson", metadata=LATER)
    burst: int = field(default=8, metadata=LATER)
    duration_s: float = field(default=60.0, metadata=LATER)
    ramp_s: float = field(default=0.0, metadata=LATER)
    warmup: int = field(default=0, metadata=LATER)
    dataset: str = field(default="", metadata=LATER)
    prefix_tokens: int = field(default=0, metadata=LATER)
    prefix_groups: int = field(default=1, metadata=LATER)


def schema_with(*tables: Table) -> Schema:
    """The schema of a ladder that has tables of its own."""
    return Schema((*SCHEMA.tables, *tables))


def by_load(parameters: Load, waves: Callable[[int], int]) -> list[Rung]:
    """Rungs of a load, the lightest first, so that a degraded serve shows before the costly ones.

    Closed loop: `waves(concurrency)` waves of each concurrency. Open loop: one wave of each rate, as many
    requests as arrive within `duration_s`.

    Raises:
        UsageError: lengths, rates or a data set that make no workload.
    """
    corpus = read_corpus(Path(parameters.dataset)) if parameters.dataset else None
    plain = isinstance(parameters.isl, int) and isinstance(parameters.osl, int)
    plain = plain and corpus is None and not parameters.prefix_tokens
    return list(_steps(parameters, waves, corpus, plain))


def _steps(
    parameters: Load, waves: Callable[[int], int], corpus: Corpus | None, plain: bool
) -> Iterator[Rung]:
    for rate in sorted(set(parameters.rate)):
        if rate * parameters.duration_s > MOST_ARRIVALS:
            raise UsageError(
                f"{rate:g}/s for {parameters.duration_s:g} s: more than {thousands(MOST_ARRIVALS)} requests",
                where="--rate", fix="Lower --rate or --duration-s.",
            )  # fmt: skip
        loop = OpenLoop(rate, parameters.arrival, parameters.burst, parameters.ramp_s)
        workload = replace(_workload(parameters, corpus), arrival=loop)
        name = f"rate={rate:g}"
        count = len(loop.arrivals(f"0/{name}", duration_s=parameters.duration_s))
        yield from _warm(parameters, name, min(count, 8))
        yield _rung(parameters, f"{name}#0", count, count, workload)
    for c in () if parameters.rate else sorted(set(parameters.concurrency)):
        yield from _warm(parameters, f"con={c}", c)
        for wave in range(waves(c)):
            workload_of = None if plain else _workload(parameters, corpus)
            yield _rung(parameters, f"con={c}#{wave}", c, c, workload_of)


def _workload(parameters: Load, corpus: Corpus | None) -> Workload:
    isl, osl = parse_lengths(parameters.isl), parse_lengths(parameters.osl)
    shared = (parameters.prefix_tokens, parameters.prefix_groups)
    return Workload(isl, osl, prefix_tokens=shared[0], prefix_groups=shared[1], corpus=corpus)


def _rung(parameters: Load, name: str, in_flight: int, count: int, workload: Workload | None) -> Rung:
    isl = workload.mean_isl if workload else float(parse_lengths(parameters.isl).mean)
    osl = workload.mean_osl if workload else float(parse_lengths(parameters.osl).mean)
    return Rung(
        name, in_flight, count, max(1, round(isl)), max(1, round(osl)), not parameters.natural,
        parameters.timeout_s, workload=workload,
    )  # fmt: skip


def _warm(parameters: Load, name: str, in_flight: int) -> Iterator[Rung]:
    if parameters.warmup:
        rung = _rung(parameters, f"warm-up-{name}", in_flight, parameters.warmup, _workload(parameters, None))
        yield replace(rung, measured=False, concurrency=min(in_flight, parameters.warmup), workload=None)


def climbing(
    plan: Callable[[Any], Sequence[Rung]],
    extra: Callable[[Any], Extra] | None = None,
    found: Callable[[Session], dict[str, Any]] | None = None,
    reasons: Callable[[Session], list[str]] | None = None,
) -> tuple[Procedure, Verdict]:
    """Procedure and verdict of a probe that climbs `plan`: valid when every rung is and `reasons` has none.

    `extra` gives, for the parameters, what makes the rows of the probe's own tables; `found` adds to the
    verdict what the ladder showed.
    """

    def procedure(session: Session, parameters: Any) -> None:
        climb(session, parameters, plan(parameters), extra(parameters) if extra else None)

    def verdict(session: Session, parameters: Any) -> dict[str, Any]:
        return session.verdict(reasons(session) if reasons else ()) | (found(session) if found else {})

    return procedure, verdict


def climb(session: Session, parameters: Steps, rungs: Sequence[Rung], extra: Extra | None = None) -> None:
    """Calibrate, canary, the rungs, canary; stops early where the parameters say so.

    `extra` makes the rows of the probe's own tables out of a rung and the rows of its requests.
    """
    session.calibrate()
    session.canary("before")
    begin = session.target.now_ns()
    allow = frozenset({"cache"}) if getattr(parameters, "prefix_tokens", 0) else frozenset[str]()
    for number, rung in enumerate(rungs):
        spent = (session.target.now_ns() - begin) / 1e9
        if why := _enough(session, parameters, rung, spent if number else 0.0):
            session.stopped = f"{why}: {len(rungs) - number} rungs were not run"
            break
        session.rung(rung, session.requests(rung), extra=partial(extra, rung) if extra else None, allow=allow)
    session.canary("after")


def _enough(session: Session, parameters: Steps, rung: Rung, spent_s: float) -> str:
    """Why the ladder ends before `rung`; empty when it goes on."""
    if session.has(rung):
        return ""
    if parameters.max_seconds and spent_s >= parameters.max_seconds:
        return f"{parameters.max_seconds:g} s were given (--max-seconds)"
    if not parameters.early_stop:
        return ""
    known = list(rates(session.run.rows("rungs")))
    if len(known) < 3 or rung.level == known[-1][0]:
        return ""
    best = max(rate for _, rate in known[:-2])
    if max(rate for _, rate in known[-2:]) <= best * (1 + EARLY_GAIN):
        return f"saturated: {known[-2][0]} and {known[-1][0]} bring no more than {best:.1f} tokens/s"
    return ""


def rates(rungs: Sequence[Mapping[str, Any]]) -> list[tuple[str, float]]:
    """(step, output tokens per second over its waves) of the valid measured rungs, in order."""
    tokens: dict[str, int] = {}
    walls: dict[str, float] = {}
    for row in sorted(rungs, key=lambda row: row["position"]):
        if row["measured"] and row["valid"] and row["wall_s"]:
            level = row["rung"].partition("#")[0]
            tokens[level] = tokens.get(level, 0) + row["completion_tokens"]
            walls[level] = walls.get(level, 0.0) + row["wall_s"]
    return [(level, tokens[level] / walls[level]) for level in tokens]
