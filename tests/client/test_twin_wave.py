"""The client against the twin in virtual time, end to end."""

from __future__ import annotations

import pytest

from k3repro.client import Outcome, Request, open_target, run_wave, wave_load
from k3repro.errors import UsageError
from k3repro.twin import needle_question, needle_sentence


def wave(count: int, tokens: int = 8) -> list[Request]:
    return [Request(f"r{index}", f"say something {index}", tokens) for index in range(count)]


def test_the_wall_law_at_concurrency_one() -> None:
    with open_target("twin:mi325x?jitter_ppm=0&step_longest_ps=0&step_context_ps=0") as target:
        for tokens in (16, 64, 256):
            request = Request(f"o{tokens}", [ord("x")] * 1024, tokens)
            (record,) = target.run(run_wave, [request], concurrency=1)
            assert record.outcome is Outcome.COMPLETED
            assert record.prompt_tokens == 1024
            assert record.done_ns - record.sent_ns == 970_000_000 + tokens * 74_000_000
            assert record.tpot_s == pytest.approx(0.074)


def test_a_wave_keeps_its_concurrency() -> None:
    with open_target("twin:mi300x", seed=3) as target:
        records = target.run(run_wave, wave(40), concurrency=8)
    load = wave_load(records, 8)
    assert load.achieved == 8.0 and load.peak == 8
    assert load.mean_in_flight == pytest.approx(load.rate_per_s * load.residence_s)


def test_needles_are_answered() -> None:
    prompt = f"Filler. {needle_sentence('k9', 'HELIOTROPE-7492')} More. {needle_question('k9')}"
    with open_target("twin:mi325x") as target:
        (record,) = target.run(run_wave, [Request("n", prompt, 16, ignore_eos=False)], concurrency=1)
    assert record.text.strip() == "HELIOTROPE-7492"
    assert record.finish_reason == "stop"


def test_the_twin_is_evidenced_and_nothing_else() -> None:
    with open_target("twin:mi325x") as target:
        target.run(run_wave, wave(1), concurrency=1)
        assert {item["kind"] for item in target.serve["evidence"]} == {"twin"}
        assert any("fingerprint" in item["value"] for item in target.serve["evidence"])


def test_bad_waves_are_refused_in_one_line() -> None:
    with open_target("twin:mi325x") as target:
        with pytest.raises(UsageError, match="concurrency"):
            target.run(run_wave, wave(1), concurrency=0)
        with pytest.raises(UsageError, match="request_id"):
            target.run(run_wave, wave(1) * 2, concurrency=1)
    for text in (
        "twin:h100",
        "twin:mi325x?nope=1",
        "twin:mi325x?lanes=zero",
        "ftp://x",
        "",
        "twin:mi325x?lanes",
    ):
        with pytest.raises(UsageError):
            open_target(text)


def test_a_wave_a_simulated_year_from_now_still_ends() -> None:
    """Seconds as a float no longer hit every nanosecond there."""
    late = [Request(f"r{index}", "x", 5, intended_ns=365 * 86_400 * 10**9 + index) for index in range(20)]
    with open_target("twin:mi325x") as target:
        records = target.run(run_wave, late, concurrency=20)
    assert {record.outcome for record in records} == {Outcome.COMPLETED}
    assert all(0.5 < (record.e2e_s or 0) < 5 for record in records)
