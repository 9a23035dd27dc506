"""Tables of an agentic replay, the same for our own replay and for what another harness recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from k3repro.store import Column, Table
from k3repro.units import order_free_sum, quantile, quantile_supported

__all__ = ["REPLAY_TABLE", "TURNS_TABLE", "summarise"]

WARMUP, WINDOW, CUT = "warm-up", "window", "cut"
TURNS_TABLE = Table(
    "turns",
    (
        Column("request_id", "VARCHAR"),
        Column("session", "VARCHAR"),
        Column("turn", "INT64", doc="place in its session, from 0"),
        Column("lane", "INT64", doc="NULL: the harness does not say"),
        Column("phase", "VARCHAR", doc="warm-up, window, or cut: under way when the window ended"),
        Column("delay_s", "DOUBLE", unit="s", doc="think time before it; NULL: the harness does not say"),
        Column("isl", "INT64", unit="tokens", doc="as the trace says"),
        Column("osl", "INT64", unit="tokens", doc="as the trace says"),
        Column("reusable", "INT64", unit="tokens", doc="leading tokens the turn before had too"),
        Column("sent_s", "DOUBLE", unit="s", doc="since the replay began"),
        Column("done_s", "DOUBLE", unit="s", doc="since the replay began"),
        Column("ttft_s", "DOUBLE", unit="s"),
        Column("itl_s", "DOUBLE", unit="s", doc="(last token - first token) / (tokens - 1)"),
        Column("prompt_tokens", "INT64", unit="tokens", doc="as the server counted"),
        Column("completion_tokens", "INT64", unit="tokens", doc="as the server counted"),
        Column("cached_tokens", "INT64", unit="tokens", doc="as the server counted; NULL: not reported"),
        Column("outcome", "VARCHAR", doc="completed, cancelled at the cutoff, or an error"),
    ),
    doc="One row per turn that was sent.",
)
REPLAY_TABLE = Table(
    "replay",
    (
        Column("harness", "VARCHAR", doc="what replayed it"),
        Column("corpus", "VARCHAR"),
        Column("concurrency", "INT64", doc="lanes"),
        Column("window_s", "DOUBLE", unit="s"),
        Column("sessions", "INT64", doc="of the corpus, after dropping"),
        Column("sessions_started", "INT64", doc="different ones"),
        Column("clones", "INT64", doc="sessions replayed again because the corpus ran out"),
        Column("dropped", "VARCHAR", doc="what was left out of the corpus and why"),
        Column("completed", "INT64", unit="turns", doc="sent and completed inside the window"),
        Column("cut", "INT64", unit="turns", doc="under way at the cutoff, drained or cancelled: no errors"),
        Column("errors", "INT64", unit="turns"),
        Column("input_p50", "DOUBLE", unit="tokens"),
        Column("input_high", "DOUBLE", unit="tokens", doc="largest input of a completed turn"),
        Column("ttft_p50_s", "DOUBLE", unit="s", doc="NULL below ten turns"),
        Column("itl_p50_s", "DOUBLE", unit="s", doc="NULL below ten turns"),
        Column("active_s", "DOUBLE", unit="s", doc="time in the window with a request in flight"),
        Column("active_tokens_per_s", "DOUBLE", unit="tokens/s", doc="input and output over active_s"),
        Column("wall_tokens_per_s", "DOUBLE", unit="tokens/s", doc="input and output over the window"),
        Column("cache_possible", "DOUBLE", doc="share of input tokens the turn before had too"),
        Column("cache_hit", "DOUBLE", doc="share of input tokens the server says it had; NULL: not reported"),
    ),
    key=("corpus",),
    doc="One row: the replay as a whole, over turns completed inside the window.",
)


def summarise(
    turns: Sequence[Mapping[str, Any]], *, window_s: float, warmup_s: float, **known: Any
) -> dict[str, Any]:
    """The row of REPLAY_TABLE. Active rates leave out think time by definition: only time with a request in
    flight counts."""
    done = [row for row in turns if row["phase"] == WINDOW and row["outcome"] == "completed"]
    cut = [row for row in turns if row["phase"] == CUT]
    errors = [row for row in turns if row["phase"] == WINDOW and row["outcome"] != "completed"]
    tokens = sum((row["prompt_tokens"] or 0) + (row["completion_tokens"] or 0) for row in done)
    inputs = sum(row["prompt_tokens"] or 0 for row in done)
    active = active_s(turns, warmup_s, warmup_s + window_s)
    cached = [row["cached_tokens"] for row in done if row["cached_tokens"] is not None]
    return known | {
        "window_s": window_s, "completed": len(done), "cut": len(cut), "errors": len(errors),
        "input_p50": _median([row["prompt_tokens"] for row in done if row["prompt_tokens"]]),
        "input_high": float(max((row["prompt_tokens"] or 0 for row in done), default=0)) or None,
        "ttft_p50_s": _median([row["ttft_s"] for row in done if row["ttft_s"] is not None]),
        "itl_p50_s": _median([row["itl_s"] for row in done if row["itl_s"] is not None]),
        "active_s": active, "active_tokens_per_s": tokens / active if active else None,
        "wall_tokens_per_s": tokens / window_s if window_s else None,
        "cache_possible": _share([row["reusable"] for row in done if row["reusable"] is not None], inputs),
        "cache_hit": _share(cached, inputs) if cached else None,
    }  # fmt: skip


def _median(values: Sequence[float]) -> float | None:
    return quantile(values, 0.5) if quantile_supported(0.5, len(values)) else None


def _share(values: Sequence[int], whole: int) -> float | None:
    return sum(values) / whole if whole and values else None


def active_s(turns: Sequence[Mapping[str, Any]], begin: float, end: float) -> float:
    """Seconds between `begin` and `end` in which at least one turn was in flight."""
    spans = sorted((max(row["sent_s"], begin), min(row["done_s"], end)) for row in turns)
    pieces, reached = [], begin
    for start, stop in spans:
        if stop > max(start, reached):
            pieces.append(stop - max(start, reached))
            reached = stop
    return order_free_sum(pieces)
