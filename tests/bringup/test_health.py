"""Health verdicts: each failure staged from what would be seen, and its look-alikes left alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3repro.bringup.health import (
    Sample,
    deferred_writes,
    judge_canary,
    judge_ranks,
    judge_restart,
    judge_wedge,
    sample_of,
)
from k3repro.serve import parse_metrics


def series(**changing: list[float | None]) -> list[Sample]:
    length = max(len(values) for values in changing.values())
    fields = {"in_flight": 8, "generated": 100, "prompts": 5, "gpu_busy": 0.0}
    rows = [fields | {name: values[i] for name, values in changing.items()} for i in range(length)]
    return [Sample(at_s=30.0 * i, **row) for i, row in enumerate(rows)]  # type: ignore[arg-type]


STILL: list[float | None] = [0.0] * 6


def test_idle_gpus_and_silence_with_requests_in_flight_is_a_wedge() -> None:
    advice = judge_wedge(series(gpu_busy=STILL))
    assert advice.name == "wedged" and "8 requests" in advice.what and "all four" in advice.do
    assert judge_wedge(series(gpu_busy=[None] * 6)).name == "wedged"


@pytest.mark.parametrize(
    "changing",
    [
        {"gpu_busy": [0, 0, 0, 0, 97, 0]},
        {"generated": [100, 100, 100, 100, 100, 101]},
        {"prompts": [5, 5, 5, 5, 5, 6]},
        {"in_flight": [8, 8, 8, 0, 8, 8]},
        {"in_flight": [None] * 6},
        {"generated": [None] * 6},
        {"gpu_busy": [0, 0]},
    ],
)
def test_what_only_looks_like_a_wedge(changing: dict[str, list[float | None]]) -> None:
    assert judge_wedge(series(**changing)).ok


@given(st.lists(st.integers(0, 50), min_size=6, max_size=6))
def test_tokens_that_move_are_never_a_wedge(steps: list[int]) -> None:
    generated, total = [], 0
    for step in steps:
        total += step
        generated.append(float(total))
    verdict = judge_wedge(series(generated=list(generated)))
    assert verdict.ok == (generated[-1] != generated[1] or len(generated) < 5)


def test_nothing_seen_is_no_verdict() -> None:
    assert judge_wedge([]).ok and judge_canary({}).ok and judge_ranks({}, 8).ok and judge_restart([]).ok


def test_one_passes_and_more_fails() -> None:
    assert judge_canary({1: (1, 1), 4: (4, 4)}).ok
    assert judge_canary({1: (1, 1), 4: (0, 4)}).name == "fabric-degraded"
    assert judge_canary({1: (0, 1), 4: (0, 4)}).name == "not-answering"


def test_lanes_without_context() -> None:
    blind = {0: (4, 4)} | dict.fromkeys(range(1, 8), (0, 4))
    advice = judge_ranks(blind, 8)
    assert advice.name == "ranks-without-context" and "moriio_pod_hosts" in advice.do
    assert "1, 2, 3, 4, 5, 6, 7 of 8" in advice.what
    assert judge_ranks(dict.fromkeys(range(8), (4, 4)), 8).ok
    assert judge_ranks(dict.fromkeys(range(8), (0, 4)), 8).ok  # all wrong is another failure


def metrics(started: float) -> str:
    return (
        f'process_start_time_seconds {started}\nvllm:num_requests_running{{engine="0"}} 3\n'
        'vllm:num_requests_waiting{engine="0"} 1\nvllm:generation_tokens_total{engine="0"} 77\n'
    )


def test_a_pool_restarted_alone() -> None:
    def at(second: float, prefill: float, decode: float) -> Sample:
        pools = {"prefill": parse_metrics(metrics(prefill)), "decode": parse_metrics(metrics(decode))}
        return sample_of(second, pools)

    assert at(0, 1, 1).in_flight == 8 and at(0, 1, 1).generated == 154
    assert judge_restart([at(0, 1000, 1003), at(30, 1000, 1003)]).ok
    assert judge_restart([at(0, 1000, 1003), at(30, 1000, 5000)]).name == "pool-restarted-alone"
    assert judge_restart([at(0, 1000, 1003), at(30, 4990, 5000)]).ok  # both: a relaunch


def test_deferred_writes() -> None:
    line = "ERROR Deferred write task for request r-1 expired after 60.0s (remote blocks never arrived)"
    advice = deferred_writes(["INFO all well", line, line])
    assert advice.name == "deferred-writes-expired" and "2 deferred" in advice.what and "60 s" in advice.what
    assert deferred_writes(["INFO all well"]).ok
