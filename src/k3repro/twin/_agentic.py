"""Table 7 on the twin: sessions drawn from what Tables 6 and 7 print, replayed for the same window."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from k3repro.store import Artifact
from k3repro.twin._core import Flight
from k3repro.twin._platform import Platform
from k3repro.twin.waves import Session, lognormal, replay
from k3repro.units import quantile

__all__ = ["replay_cells"]

WINDOW_NS = 900_000_000_000
_TURNS = 4000


def replay_cells(specs: Mapping[str, Platform], agentic: Artifact) -> Iterator[dict[str, Any]]:
    """Cells of Table 7: first token, inter-token latency and active rate of every replay.

    Input lengths are lognormal through the corpus median and the run's own p99, output lengths through the
    corpus median and p99; the printed cache hit is taken as given, think time is not printed and left out.
    """
    corpora = {row["profile"]: row for row in agentic.rows("corpora")}
    for row in agentic.rows("replays"):
        corpus = corpora[row["profile"]]
        unknown = corpus["input_p50"] is None
        done = [] if unknown else _run(specs[row["platform"]], row, corpus)
        why = "the corpus is recorded and its lengths are not printed" if unknown else None
        simulated = _figures(done) if done else {}
        for quantity, unit in (
            ("ttft_p50_s", "s"),
            ("itl_p50_ms", "ms"),
            ("active_tokens_per_s", "tokens/s"),
        ):
            yield {
                "platform": row["platform"], "source": "Table 7",
                "cell": f"{row['profile']}, con {row['concurrency']}", "quantity": quantity,
                "regime": "agentic, short" if row["profile"] == "small" else "agentic, long context",
                "unit": unit, "printed": row[quantity], "simulated": simulated.get(quantity),
                "relation": "held-out", "why": why,
            }  # fmt: skip


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
