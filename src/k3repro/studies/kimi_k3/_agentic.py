"""Table 7 on the twin: sessions drawn from what Tables 6 and 7 print, replayed for the same window."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from k3repro.store import Artifact
from k3repro.studies.kimi_k3._cells import cell_row
from k3repro.studies.kimi_k3._replays import WINDOW_NS, Figures, replay_figures
from k3repro.twin import Platform
from k3repro.twin.waves import WaveSession, replay, simulate_wave

__all__ = ["replay_cells"]

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
        found, least, most = (_recorded(spec, row), {}, {}) if recorded else replay_figures(spec, row, corpus)
        isl = round(row["input_p99"] if recorded else corpus["input_p50"])
        for quantity, unit in (
            ("ttft_p50_s", "s"),
            ("itl_p50_ms", "ms"),
            ("active_tokens_per_s", "tokens/s"),
        ):
            known = found.get(quantity)
            yield cell_row(
                row["platform"], "Table 7", f"{row['profile']}, con {row['concurrency']}", quantity,
                "agentic, short" if row["profile"] == "small" else "agentic, long context", unit,
                row[quantity], known, None if known is not None else _UNKNOWN,
                isl=isl, concurrency=row["concurrency"], draws=(least.get(quantity), most.get(quantity)),
            )  # fmt: skip


def _recorded(spec: Platform, row: Mapping[str, Any]) -> Figures:
    """What is known without lengths: inter-token latency at the longest input, which bounds it from above.

    A run that completed one request printed that request's own input, so its first token is known as well.
    """
    prompt = round(row["input_p99"])
    wave = simulate_wave(spec, 1, prompt, 2)
    found = {"itl_p50_ms": (wave.last_ns[0] - wave.first_ns[0]) / 1e6}
    if row["requests"] == 1:
        missed = prompt - prompt * round(row["cache_hit"]) // 100
        (flight,) = replay(spec, [WaveSession(((prompt, prompt - missed, 2),))], 1, WINDOW_NS)
        found["ttft_p50_s"] = (flight.times[0] - flight.arrival_ns) / 1e9
    return found
