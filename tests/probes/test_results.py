"""The table every benchmark prints, from records made by hand: each number is arithmetic."""

from __future__ import annotations

from dataclasses import replace

import pytest

from k3repro.client import Outcome, RequestRecord
from k3repro.errors import UsageError
from k3repro.probes import parse_slo, results, results_text, run_probe
from k3repro.probes.results import level_results
from k3repro.store import Store

S = 10**9


def record(index: int) -> RequestRecord:
    """Sent at 0; the first token after 1 s and a bit, then ten more in 2 s."""
    first = S + index * 10**6
    return RequestRecord(
        f"r{index}", "con=4#0", Outcome.COMPLETED, 200, "length", None, 0, 0, first, first + 2 * S,
        first + 2 * S, 100, 11, 0, 1, 11, "", None,
    )  # fmt: skip


WAVE = {"rung": "con=4#0", "wall_s": 4.0, "valid": True, "concurrency": 4}


def found(records: list[RequestRecord], slo: str = "") -> dict[str, object]:
    return level_results("con=4", [WAVE], {"con=4#0": records}, parse_slo(slo))


def test_rates_and_times_are_arithmetic() -> None:
    row = found([record(n) for n in range(20)])
    assert (row["requests_per_s"], row["output_tokens_per_s"], row["input_tokens_per_s"]) == (
        5.0,
        55.0,
        500.0,
    )
    assert row["tpot"]["mean_s"] == pytest.approx(0.2) == row["itl"]["mean_s"]  # type: ignore[index]
    assert row["tokens_per_s_per_user"] == pytest.approx(5.0)
    ttft = row["ttft"]
    assert ttft["n"] == 20 and ttft["p50_s"] == pytest.approx(1.0095, abs=0.001)  # type: ignore[index]
    assert ttft["p90_s"] is None and ttft["p99_s"] is None, "20 requests carry no p90"  # type: ignore[index]
    assert "first_answer" not in row


def test_quantiles_come_with_the_requests_that_carry_them() -> None:
    known = {}
    for n in (9, 10, 50, 100, 500):
        ttft: dict[str, float | None] = found([record(k) for k in range(n)])["ttft"]  # type: ignore[assignment]
        known[n] = [name for name in ("p50_s", "p90_s", "p95_s", "p99_s") if ttft[name]]
    assert known == {
        9: [], 10: ["p50_s"], 50: ["p50_s", "p90_s"], 100: ["p50_s", "p90_s", "p95_s"],
        500: ["p50_s", "p90_s", "p95_s", "p99_s"],
    }  # fmt: skip


def test_goodput_counts_requests_that_keep_every_limit() -> None:
    slow = replace(record(1), first_token_ns=3 * S)
    failed = replace(record(2), outcome=Outcome.TIMEOUT)
    whole = replace(record(3), events=1)  # all in one event: no interval was observed
    row = found([record(0), slow, failed, whole], "ttft=2s, tpot=500ms")
    assert (row["good"], row["goodput_per_s"], row["good_share"]) == (1, 0.25, 0.25)
    assert row["completed"] == 3 and row["failed"] == 1


def test_a_reasoning_model_shows_when_its_answer_began() -> None:
    row = found([replace(record(n), reasoning="hm", first_answer_ns=2 * S) for n in range(10)])
    assert row["first_answer"]["p50_s"] == 2.0  # type: ignore[index]


def test_a_time_that_is_not_known_says_why() -> None:
    chunks = [replace(record(n), events=3, first_event_tokens=None) for n in range(10)]
    told = "\n".join(results_text([found(chunks)]))
    assert "ITL of con=4 is unknown: events bring several tokens" in told and "TPOT of" not in told
    whole = "\n".join(results_text([found([replace(r, events=1) for r in chunks])]))
    assert "TPOT of con=4 is unknown: no time between tokens was seen" in whole and "ITL of" not in whole
    clear = "\n".join(results_text([found([replace(record(n), first_event_tokens=None) for n in range(10)])]))
    assert "unknown" not in clear and " ITL " in clear, "an event a token: the first brought one"


def test_a_late_client_marks_first_tokens_and_nothing_else() -> None:
    row = found([record(n) for n in range(20)]) | {"ttft_late_s": 0.0625}
    told = "\n".join(results_text([row]))
    assert " TTFT? " in told and "late by up to 62.5 ms" in told and "TPOT?" not in told
    assert "TTFT?" not in "\n".join(results_text([row | {"ttft_late_s": None}]))


@pytest.mark.parametrize("text", ["ttft", "ttft=", "ttft=2", "speed=2s", "ttft=-1s", "ttft=2h", "tpot=xms"])
def test_what_is_no_limit_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--slo ttft=2s,tpot=50ms"):
        parse_slo(text)


def test_a_sealed_ladder_prints_its_table(store: Store) -> None:
    options = {"isl": 200, "osl": 8, "concurrency": (2, 4), "requests": 12}
    done = run_probe("latency", target="twin:mi325x", store=store, unsafe=True, **options)
    rows = results(done, "ttft=1h".replace("h", "s"))
    assert [row["step"] for row in rows] == ["con=2", "con=4"] and rows[0]["requests"] == 12
    text = "\n".join(results_text(rows))
    assert "TTFT" in text and "TPOT" in text and "E2E" in text and "good: within TTFT 1000 ms" in text
    open_loop = run_probe(
        "latency", target="twin:mi325x", store=store, unsafe=True, isl="100..300", osl=8, rate=(4.0,),
        duration_s=5.0,
    )  # fmt: skip
    (row,) = results(open_loop)
    assert row["step"] == "rate=4" and 100 <= row["mean_isl"] <= 300
    reasons = [reason for reason in open_loop.verdict["reasons"] if "unsafe" not in reason]
    assert reasons == [] and 10 < row["requests"] < 35
