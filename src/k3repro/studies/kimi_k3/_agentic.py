"""Table 7 on the twin: sessions drawn from what Tables 6 and 7 print, replayed for the same window."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from k3repro.store import Artifact
from k3repro.studies.kimi_k3._cells import cell_row
from k3repro.twin import Flight, Platform
from k3repro.twin.waves import Session, lognormal, replay, simulate_wave
from k3repro.units import quantile

__all__ = ["replay_cells", "replay_figures"]

WINDOW_NS = 900_000_000_000
_TURNS = 4000
_UNKNOWN = "the corpus is recorded and its lengths are not printed"


def replay_cells(specs: Mapping[str, Platform], agentic: Artifact) -> Iterator[dict[str, Any]]:
    """Cells of Table 7: first token, inter-token latency and active rate of every replay.

    Input lengths are lognormal through the corpus median and the run's own p99, output lengths through the
    corpus median and p99; the printed cache hit is taken as given, think time is not printed and left out.
    Of the recorded corpus no lengths are printed, see `_recorded`.
    """
    corpora = {row["profile"]: row for row in agentic.rows("corpora")}
    for row in agentic.rows("replays"):
        corpus, spec = corpora[row["profile"]], specs[row["platform"]]
        recorded = corpus["input_p50"] is None
        simulated = _recorded(spec, row) if recorded else replay_figures(spec, row, corpus)
        for quantity, unit in (
            ("ttft_p50_s", "s"),
            ("itl_p50_ms", "ms"),
            ("active_tokens_per_s", "tokens/s"),
        ):
            known = simulated.get(quantity)
            yield cell_row(
                row["platform"], "Table 7", f"{row['profile']}, con {row['concurrency']}", quantity,
                "agentic, short" if row["profile"] == "small" else "agentic, long context", unit,
                row[quantity], known, why=_UNKNOWN if known is None else None,
            )  # fmt: skip


def _recorded(spec: Platform, row: Mapping[str, Any]) -> dict[str, float]:
    """What is known without lengths: inter-token latency at the longest input, which bounds it from above.

    A run that completed one request printed that request's own input, so its first token is known as well.
    """
    prompt = round(row["input_p99"])
    wave = simulate_wave(spec, 1, prompt, 2)
    found = {"itl_p50_ms": (wave.last_ns[0] - wave.first_ns[0]) / 1e6}
    if row["requests"] == 1:
        missed = prompt - prompt * round(row["cache_hit"]) // 100
        (flight,) = replay(spec, [Session(((prompt, prompt - missed, 2),))], 1, WINDOW_NS)
        found["ttft_p50_s"] = (flight.times[0] - flight.arrival_ns) / 1e9
    return found


def replay_figures(spec: Platform, row: Mapping[str, Any], corpus: Mapping[str, Any]) -> dict[str, float]:
    """First token, inter-token latency and active rate of one replay of a corpus with printed lengths."""
    done = _run(spec, row, corpus)
    return _figures(done) if done else {}


def _run(spec: Platform, row: Mapping[str, Any], corpus: Mapping[str, Any]) -> list[Flight]:
    inputs = lognormal(int(corpus["input_p50"]), int(row["input_p99"]), 1, _TURNS)
    outputs = lognormal(int(corpus["output_p50"]), int(corpus["output_p99"]), 2, _TURNS)
    hit = round(row["cache_hit"])
    sessions = [
        Session(((prompt, prompt * hit // 100, output),))
        for prompt, output in zip(inputs, outputs, strict=True)
        if prompt + output <= spec.max_model_len
    ]
    return replay(spec, sessions, row["concurrency"], WINDOW_NS)


def _figures(done: list[Flight]) -> dict[str, float]:
    first = [(flight.times[0] - flight.arrival_ns) / 1e9 for flight in done]
    gaps = [
        (flight.times[-1] - flight.times[0]) / 1e6 / (len(flight.times) - 1)
        for flight in done
        if len(flight.times) > 1
    ]
    tokens = sum(flight.prompt_tokens + len(flight.times) for flight in done)
    active = max(flight.finished_ns for flight in done) / 1e9
    return {
        "ttft_p50_s": quantile(first, 0.5),
        "itl_p50_ms": quantile(gaps, 0.5),
        "active_tokens_per_s": tokens / active,
    }
