"""The instrument's checks on records made by hand: each one fails on its own defect and on nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from k3repro.client import Outcome, RequestRecord
from k3repro.probes.checks import summarise, verdict
from k3repro.probes.lateness import late_first_tokens
from k3repro.probes.plan import Rung, estimate
from k3repro.probes.wave_monitor import Headroom

RUNG = Rung("con=8", 8, 8, 1000, 100)


def record(index: int, **changes: object) -> RequestRecord:
    made = RequestRecord(
        f"r{index}", "con=8", Outcome.COMPLETED, 200, "length", None, 0, 0, 10**9, 9 * 10**9, 10 * 10**9,
        1000, 100, 0, 1, 100, "", None,
    )  # fmt: skip
    return replace(made, **changes)  # type: ignore[arg-type]


def reasons(records: list[RequestRecord], rung: Rung = RUNG, share: float | None = None) -> str:
    row = summarise(rung, 0, records, client_share=share)
    assert row["valid"] == (not row["reasons"])
    return "; ".join(row["reasons"])


def test_a_clean_wave_is_valid_and_its_rates_are_arithmetic() -> None:
    row = summarise(RUNG, 0, [record(n) for n in range(8)])
    assert row["valid"] and row["wall_s"] == 10 and row["output_tokens_per_s"] == 80
    assert (
        row["total_tokens_per_s"] == 880
        and row["forced_ratio"] == 1
        and row["little_ratio"] == pytest.approx(1)
    )


def test_every_defect_has_its_reason() -> None:
    clean = [record(n) for n in range(8)]
    assert "1 not completed: 7 completed, 1 failed_in_stream" in reasons(
        [record(0, outcome=Outcome.FAILED_IN_STREAM), *clean[1:]]
    )
    assert "0.990 of the forced output" in reasons([record(0, completion_tokens=92), *clean[1:]])
    assert "1.010 of the forced output" in reasons([record(0, completion_tokens=108), *clean[1:]])
    assert "7 records of 8 requests" in reasons(clean[1:])
    assert "Little's law" in reasons(clean[1:])
    assert "1 of 8 prompts off target 1000: for example 200" in reasons(
        [record(0, prompt_tokens=200), *clean[1:]]
    )
    assert reasons([record(0, prompt_tokens=1016), *clean[1:]]) == ""
    assert "2 of 8 prompts off" in reasons([record(n, prompt_tokens=1080) for n in range(2)] + clean[2:])
    assert "refused with 429" in reasons([record(0, retries=2), *clean[1:]])
    assert "on average" in reasons([record(n, prompt_tokens=1045) for n in range(8)])
    assert "on average" not in reasons([record(n, prompt_tokens=1015) for n in range(8)])
    assert "without usage.prompt_tokens" in reasons([record(0, prompt_tokens=None), *clean[1:]])
    assert "came from a prefix cache" in reasons([record(n, cached_tokens=200) for n in range(8)])
    assert "client-bound" in reasons(clean, share=0.9)
    assert reasons(clean, share=0.1) == ""


def test_a_late_client_spoils_measured_times_and_nothing_else() -> None:
    """A needle that came late is the same needle; a canary says that the serve works, not how fast."""
    late, clean = Headroom(lags=[1.0] * 1000), [record(n) for n in range(8)]

    def found(rung: Rung, timed: bool) -> dict[str, Any]:
        return summarise(rung, 0, clean, client_share=0.9, headroom=late, timed=timed)

    assert len(found(RUNG, True)["reasons"]) == 2
    for rung, timed in ((RUNG, False), (replace(RUNG, measured=False), True)):
        row = found(rung, timed)
        assert row["valid"] and row["client_lag_s"] == 1.0 and row["client_share"] == 0.9


@pytest.mark.parametrize(
    ("lag_ms", "void", "ttft"),
    [(0.9, False, False), (4.0, False, True), (14.0, False, True), (130.0, True, False)],
)
def test_lateness_is_held_against_the_time_that_is_measured(lag_ms: float, void: bool, ttft: bool) -> None:
    """First tokens after 57 ms, replies of 2.4 s: 14 ms blur the first tokens and nothing else."""
    first, done = 57 * 10**6, 2400 * 10**6
    waves = [record(n, first_token_ns=first, last_token_ns=done, done_ns=done) for n in range(8)]
    row = summarise(RUNG, 0, waves, headroom=Headroom(lags=[lag_ms / 1000] * 1000))
    assert row["valid"] is not void, row["reasons"]
    late = late_first_tokens([row], [wave.as_row() for wave in waves])
    assert late == ({"con=8": lag_ms / 1000} if ttft else {})


def test_one_token_replies_are_held_against_their_whole_time() -> None:
    waves = [record(n, completion_tokens=1, events=1, done_ns=10**9) for n in range(8)]
    rung = replace(RUNG, output_tokens=1)
    for lag, valid in ((0.04, True), (0.06, False)):
        assert summarise(rung, 0, waves, headroom=Headroom(lags=[lag] * 1000))["valid"] is valid


def test_load_that_was_not_delivered_is_seen() -> None:
    """dynamo#6777: 16, 32 and 64 asked, ten in flight ever."""
    waves = [record(n, sent_ns=n * 10**10, done_ns=(n + 1) * 10**10) for n in range(8)]
    assert "concurrency 8 asked, 1.00 in flight (peak 1)" in reasons(waves)


def test_the_verdict_collects_reasons_in_order() -> None:
    rows = [summarise(RUNG, 1, []), summarise(replace(RUNG, name="first"), 0, [record(n) for n in range(7)])]
    found = verdict(rows, ["extra"])
    assert not found["ok"] and found["reasons"][0] == "extra" and found["reasons"][1].startswith("first: ")


def test_an_estimate_counts_what_surrounds_a_ladder_too() -> None:
    plan = estimate([RUNG])
    assert plan["total"]["requests"] == 8 + 2 + 2 * 5
    assert plan["total"]["output_tokens"] == 800 + 2 + 2 * 5 * 8
    assert next(row for row in plan["rungs"] if row["rung"] == "con=8")["resident_tokens"] == 8 * 1100
