"""The cross-check: two accounts that agree say nothing, and each way to part has its own sentence."""

from __future__ import annotations

from typing import Any

import pytest

from k3repro.probes.crosscheck import event_reasons, server_reasons, witness
from k3repro.serve.metrics import Metrics

S = 1_000_000_000


def rows(count: int = 10, first: float = 1.0, last: float = 3.0) -> list[dict[str, Any]]:
    return [
        {
            "sent_ns": index * S,
            "first_token_ns": index * S + round(first * S),
            "last_token_ns": index * S + round(last * S),
            "outcome": "completed",
            "completion_tokens": 20,
            "events": 20,
        }
        for index in range(count)
    ]


def metrics(count: int = 10, first: float = 1.0, last: float = 3.0, **more: float) -> str:
    pairs: dict[str, float] = {
        "vllm:time_to_first_token_seconds_sum": count * first,
        "vllm:time_to_first_token_seconds_count": count,
        "vllm:e2e_request_latency_seconds_sum": count * last,
        "vllm:e2e_request_latency_seconds_count": count,
        **{f"vllm:{name}": value for name, value in more.items()},
    }
    return "".join(f"{name} {value}\n" for name, value in pairs.items())


START = witness(metrics(5, 9.0, 9.0))


def after(count: int = 10, first: float = 1.0, last: float = 3.0, **more: float) -> Any:
    text = metrics(1, 45.0 + count * first, 45.0 + count * last, **more)
    return witness(text.replace("_count 1", f"_count {5 + count}"))


def test_equal_accounts_say_nothing() -> None:
    assert server_reasons(START, after(), rows()) == []
    assert server_reasons(START, after(first=0.95, last=2.9), rows()) == []


def test_what_is_not_reported_is_not_judged() -> None:
    assert server_reasons(witness(None), witness(None), rows()) == []
    assert server_reasons(START, after(count=11, first=0.1), rows()) == [], "other traffic was there"
    assert server_reasons(START, after(), []) == []


@pytest.mark.parametrize(
    ("server", "words"),
    [((0.5, 3.0), "first token of 1.000 s"), ((1.0, 2.0), "end-to-end"), ((1.5, 3.0), "clocks differ")],
)
def test_accounts_that_part_are_named(server: tuple[float, float], words: str) -> None:
    found = server_reasons(START, after(10, *server), rows())
    assert len(found) == 1 and words in found[0]


def test_slow_transfers_and_failures_are_named() -> None:
    slow = after(moriio_bytes_transferred_sum=1e9, moriio_xfer_time_seconds_sum=1.0)
    assert "1.0 GB/s" in server_reasons(START, slow, rows())[0]
    fast = after(moriio_bytes_transferred_sum=1e10, moriio_xfer_time_seconds_sum=1.0)
    assert server_reasons(START, fast, rows()) == []
    failed = after(moriio_num_failed_transfers_total=3.0)
    assert "3 transfers failed" in server_reasons(START, failed, rows())[0]


def handoffs(times: list[float], sizes: list[float]) -> Any:
    """Histograms of an engine over these handoffs."""
    lines = []
    for name, seen, bounds in (
        ("xfer_time_seconds", times, (0.05, 0.1, 0.2, 0.5)),
        ("bytes_transferred", sizes, (2.0**27, 2.0**29, 2.0**31)),
    ):
        for bound in (*bounds, float("inf")):
            le = "+Inf" if bound == float("inf") else str(bound)
            lines.append(f'vllm:moriio_{name}_bucket{{le="{le}"}} {sum(x <= bound for x in seen)}')
        lines.append(f"vllm:moriio_{name}_sum {sum(seen)}")
    return witness("\n".join(lines))


@pytest.mark.parametrize(
    ("times", "sizes", "flagged"),
    [
        ([0.004] * 50, [2e8] * 50, ""),
        ([0.004] * 48 + [0.24] * 2, [2e8] * 50, "2 of 50 handoffs took more than 0.2 s, 0 were large"),
        ([0.004] * 48 + [0.24] * 2, [2e8] * 48 + [3e9] * 2, ""),  # long prompts may take so long
        ([0.004] * 47 + [0.24] * 3, [2e8] * 48 + [3e9] * 2, "3 of 50 handoffs took more than 0.2 s, 2 were"),
    ],
)
def test_a_few_slow_transfers_do_not_hide_in_the_mean(
    times: list[float], sizes: list[float], flagged: str
) -> None:
    found = server_reasons(handoffs([], []), handoffs(times, sizes), [])
    assert (flagged in found[0]) if flagged else found == []


def lateness(*counts: int) -> Metrics:
    bounds = ("0.005", "0.01", "+Inf")
    name = "k3repro_twin_deadline_miss_seconds_bucket"
    return witness("".join(f'{name}{{le="{b}"}} {n}\n' for b, n in zip(bounds, counts, strict=True)))


def test_a_late_simulation_is_invalid() -> None:
    assert "too busy" in server_reasons(lateness(0, 0, 0), lateness(900, 980, 1000), rows(first=0.1))[0]
    assert server_reasons(lateness(0, 0, 0), lateness(900, 995, 1000), rows(first=0.1)) == []


def test_what_a_simulation_was_late_before_the_run_says_nothing_about_it() -> None:
    spike = lateness(100, 100, 1000)
    assert server_reasons(spike, lateness(1100, 1100, 2000), rows()) == []


def test_lateness_is_held_against_what_is_measured() -> None:
    before, after = lateness(0, 0, 0), lateness(900, 1000, 1000)
    assert "more than 10 ms" not in str(server_reasons(before, after, rows()))
    quick = [row | {"first_token_ns": row["sent_ns"] + 10_000_000} for row in rows()]
    slow = [row | {"first_token_ns": row["sent_ns"] + 1_250_000_000} for row in rows()]
    late = lateness(900, 900, 1000)
    assert "too busy" in str(server_reasons(before, late, quick))
    assert "too busy" not in str(server_reasons(before, late, slow))


def test_coalesced_events_are_no_token_times() -> None:
    assert event_reasons(rows()) == []
    merged = [row | {"events": 15} for row in rows()]
    assert "150 events brought 200 tokens" in event_reasons(merged)[0]
    assert event_reasons([row | {"events": 0} for row in rows()]) == []


@pytest.mark.parametrize(
    ("served", "made", "parts"),
    [(10, 200, False), (10, 210, False), (10, 100, True), (10, 230, True), (11, 100, False), (0, 100, False)],
)
def test_usage_is_held_against_what_the_engine_generated_for_these_requests_alone(
    served: int, made: int, parts: bool
) -> None:
    def at(requests: int, tokens: int) -> Any:
        return witness(f"vllm:request_success_total {requests}\nvllm:generation_tokens_total {tokens}\n")

    found = server_reasons(at(3, 50), at(3 + served, 50 + made), rows(), timing=False)
    assert bool(found) is parts and all(f"the engine generated {made}" in text for text in found)
    unknown = [row | {"completion_tokens": None} for row in rows()]
    assert server_reasons(at(0, 0), at(10, 9), unknown, timing=False) == []


def test_answers_that_were_not_streamed_have_no_token_times() -> None:
    whole = [row | {"first_token_ns": None, "events": 0} for row in rows(2)]
    assert event_reasons([*whole, *rows(8)])[0].startswith("2 of 10 answers were not streamed")
