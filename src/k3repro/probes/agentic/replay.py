"""agentic: multi-turn sessions replayed by concurrent users, with think time and prefix reuse.

As in the publication's Tables 6 and 7. Each user plays one session after the other, the next turn after the
last answer and its think time. A corpus for a profile is generated and has to pass its 13-axis gate first; a
recorded one is read from a path. Measured are turns sent and completed inside the window; what is under way
at the cutoff drains and counts apart, and is no error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from k3repro.client import REQUESTS_TABLE, Request, RequestRecord, run_wave
from k3repro.errors import UsageError
from k3repro.probes._session import Session as ProbeSession
from k3repro.probes.agentic.gate import AXES, Axis, pre_gate
from k3repro.probes.agentic.tables import CUT, REPLAY_TABLE, TURNS_TABLE, WARMUP, WINDOW, summarise
from k3repro.probes.agentic.text import Writer
from k3repro.probes.plan import Rung
from k3repro.probes.tables import Construction, RungRow
from k3repro.store import Schema
from k3repro.units import order_free_sum
from k3repro.workload import Corpus, Session, generate, profile, read_corpus

NAME = "agentic"
PERFORMANCE = True
EXAMPLES = ("--target twin:mi325x --profile small --concurrency 16", "--target twin:mi325x --corpus traces/")
HELP = {
    "profile": "Corpus profile: small, conformance_256k, conformance_512k.",
    "corpus": "Folder or file of recorded traces (Weka or Mooncake format) instead of a profile.",
    "sessions": "Sessions of the corpus (0: as the profile says).",
    "warmup_s": "Warm-up before the window; its turns are not measured.",
    "window_s": "Measurement window.",
    "max_context": "Sessions with a longer turn are dropped (0: what the serve says).",
}
# Of the detection matrix: small enough for thousands of trials, with requests in flight together.
TRIAL = {"concurrency": 4, "warmup_s": 1.0, "window_s": 40.0}
SCHEMA = Schema((REQUESTS_TABLE, RungRow.TABLE, Construction.TABLE, TURNS_TABLE, REPLAY_TABLE))
HARNESS = "k3repro"
_LONGEST_THINK_S = 10.0
_RESULTS = frozenset({"completion", "concurrency", "prompts", "cache"})
_SIZE_LIMIT = 0.02


@dataclass(frozen=True, slots=True)
class Parameters:
    """Profile or recorded corpus, users, warm-up and window in seconds, longest context (0: as the serve
    says).
    """

    profile: str = "small"
    corpus: str = ""
    concurrency: int = 16
    sessions: int = 0
    warmup_s: float = 60.0
    window_s: float = 900.0
    max_context: int = 0
    timeout_s: float = 7200.0


@dataclass(slots=True)
class _Sent:
    """A turn that was sent."""

    session: Session
    lane: int
    index: int
    reusable: int
    record: RequestRecord


def corpus_of(parameters: Parameters, longest: int | None) -> Corpus:
    """The corpus, without sessions that the serve cannot hold.

    Raises:
        UsageError: a profile that is not available here, or nothing left of the corpus.
        InputError: a recorded corpus that cannot be read.
    """
    found = (
        read_corpus(Path(parameters.corpus))
        if parameters.corpus
        else generate(parameters.profile, parameters.sessions)
    )
    if parameters.corpus and parameters.sessions:
        found = replace(found, sessions=found.sessions[: parameters.sessions])
    gate = parameters.max_context or longest
    kept = found.within(gate) if gate else found
    if not kept.sessions:
        raise UsageError(f"no session of {found.name} fits {gate} tokens", fix="Choose a shorter corpus.")
    return kept


def plan(parameters: Parameters) -> list[Rung]:
    """One rung, bounded by the corpus; the window usually ends it earlier."""
    if parameters.concurrency < 1 or parameters.window_s <= 0 or parameters.warmup_s < 0:
        raise UsageError(
            "a replay needs a lane and a window", fix="For example --concurrency 16 --window-s 900."
        )
    if not parameters.corpus:
        profile(parameters.profile)
        if off := [axis.name for axis in _axes(parameters) if not axis.ok]:
            sessions = f"{parameters.sessions} sessions" if parameters.sessions else "this profile"
            fix = "Leave --sessions out: fewer of them do not have the declared distribution."
            raise UsageError(f"{sessions} miss the profile in {', '.join(off)}", where="--sessions", fix=fix)
    corpus = corpus_of(parameters, None)
    turns = [turn for session in corpus.sessions for turn in session.turns]
    isl = round(order_free_sum(turn.isl for turn in turns) / len(turns))
    osl = round(order_free_sum(turn.osl for turn in turns) / len(turns))
    return [Rung("replay", parameters.concurrency, len(turns), isl, osl, False, parameters.timeout_s)]


def procedure(session: ProbeSession, parameters: Parameters) -> None:
    """Pre-gate, calibrate, canary, the replay, canary."""
    corpus = corpus_of(parameters, session.target.max_model_len)
    session.calibrate()
    session.canary("before")
    sent: list[_Sent] = []
    writer = Writer(session.sizing, corpus.block_size, session.prompt_seed("replay"))
    rung = plan(parameters)[0]
    lanes = partial(_lanes, corpus=corpus, writer=writer, parameters=parameters, sent=sent)
    session.rung(
        rung, [], extra=lambda rows: _tables(rows, sent, corpus, parameters), wave=lanes, allow=_RESULTS
    )
    session.canary("after")


async def _lanes(
    target: Any, on_record: Callable[[RequestRecord], None], *, corpus: Corpus, writer: Writer,
    parameters: Parameters, sent: list[_Sent],
) -> list[RequestRecord]:  # fmt: skip
    """Play sessions on all lanes until the window ends, then let what is in flight drain."""
    begin = target.now_ns()
    cutoff = begin + round((parameters.warmup_s + parameters.window_s) * 1e9)
    queue = _endless(corpus.sessions)
    tasks = [
        asyncio.ensure_future(_lane(target, lane, queue, cutoff, writer, parameters, sent, on_record))
        for lane in range(parameters.concurrency)
    ]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
    return [entry.record for entry in sent]


def _endless(sessions: tuple[Session, ...]) -> Iterator[tuple[int, Session]]:
    """Sessions in order, again from the start when they run out; with the number of the pass."""
    copy = 0
    while True:
        for session in sessions:
            yield copy, session
        copy += 1


async def _lane(
    target: Any, lane: int, queue: Iterator[tuple[int, Session]], cutoff: int, writer: Writer,
    parameters: Parameters, sent: list[_Sent], on_record: Callable[[RequestRecord], None],
) -> None:  # fmt: skip
    while target.now_ns() < cutoff and not target.stopping:
        copy, session = next(queue)
        for index, turn in enumerate(session.turns):
            await asyncio.sleep(min(turn.delay_s, _LONGEST_THINK_S))
            if target.now_ns() >= cutoff or target.stopping:
                return
            name = f"{session.name}.{copy}-{index:03d}"
            request = Request(name, writer.prompt(f"{session.name}.{copy}", turn), turn.osl)
            (record,) = await run_wave(
                target,
                [request],
                concurrency=1,
                timeout_s=parameters.timeout_s,
                wave="replay",
                on_record=on_record,
            )
            reusable = session.reused(index) * writer.block_size
            sent.append(_Sent(session, lane, index, min(reusable, turn.isl), record))
            if str(record.outcome) != "completed":
                break  # the rest of the session would stand on an answer that never came


def _tables(
    rows: list[dict[str, Any]], sent: list[_Sent], corpus: Corpus, parameters: Parameters
) -> dict[str, list[dict[str, Any]]]:
    origin = min((row["sent_ns"] for row in rows), default=0)
    by_id = {row["request_id"]: row for row in rows}
    turns = [_turn(entry, by_id[entry.record.request_id], origin, parameters) for entry in sent]
    names = [entry.record.request_id.rpartition("-")[0] for entry in sent]
    started = {name.rpartition(".")[0] for name in names}
    summary = summarise(
        turns, window_s=parameters.window_s, warmup_s=parameters.warmup_s, harness=HARNESS,
        corpus=corpus.name,
        concurrency=parameters.concurrency, sessions=len(corpus.sessions), sessions_started=len(started),
        clones=len(set(names)) - len(started), dropped="; ".join(f"{n} {why}" for why, n in corpus.dropped),
    )  # fmt: skip
    return {"turns": turns, "replay": [summary]}


def _turn(entry: _Sent, row: dict[str, Any], origin: int, parameters: Parameters) -> dict[str, Any]:
    turn, record = entry.session.turns[entry.index], entry.record
    sent, done = (row["sent_ns"] - origin) / 1e9, (row["done_ns"] - origin) / 1e9
    end = parameters.warmup_s + parameters.window_s
    phase = WARMUP if sent < parameters.warmup_s else CUT if done > end else WINDOW
    outcome = "cancelled" if phase == CUT and row["outcome"] == "cancelled" else row["outcome"]
    return {
        "request_id": record.request_id, "session": entry.session.name, "turn": entry.index,
        "lane": entry.lane,
        "phase": phase, "delay_s": min(turn.delay_s, _LONGEST_THINK_S), "isl": turn.isl, "osl": turn.osl,
        "reusable": entry.reusable, "sent_s": sent, "done_s": done, "ttft_s": record.ttft_s,
        "itl_s": record.tpot_s, "prompt_tokens": row["prompt_tokens"],
        "completion_tokens": row["completion_tokens"], "cached_tokens": row["cached_tokens"],
        "outcome": outcome,
    }  # fmt: skip


def _axes(parameters: Parameters) -> list[Axis]:
    return pre_gate(generate(parameters.profile, parameters.sessions), parameters.profile)


def verdict(session: ProbeSession, parameters: Parameters) -> dict[str, Any]:
    """Valid when the corpus passed its gate, prompts fit the trace and no turn of the window failed."""
    replay, turns = session.run.rows("replay")[0], session.run.rows("turns")
    reasons = []
    axes = [] if parameters.corpus else _axes(parameters)
    reasons += [f"corpus: {a.name} {a.measured:g} outside {a.low:g}..{a.high:g}" for a in axes if not a.ok]
    if replay["errors"]:
        reasons.append(f"{replay['errors']} turns of the window failed")
    if not replay["completed"]:
        reasons.append("no turn completed inside the window")
    known = [(row["prompt_tokens"], row["isl"]) for row in turns if row["prompt_tokens"]]
    ratio = sum(a for a, _ in known) / sum(b for _, b in known) if known else None
    if ratio is None or abs(ratio - 1) > _SIZE_LIMIT:
        reasons.append(f"prompts have {ratio} of the trace's tokens" if ratio else "no turn with usage")
    passed = f"{sum(axis.ok for axis in axes)} of {AXES}"
    gate = passed if axes else "a recorded corpus declares no distribution"
    return session.verdict(reasons) | {"pre_gate": gate, "axes": [axis.as_dict() for axis in axes]}
