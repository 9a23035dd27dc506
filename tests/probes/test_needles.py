"""Needles: distinct, scored by exact code, and every leak has an owner."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3repro.errors import InputError
from k3repro.probes.needle_gate import Parameters, plan, power
from k3repro.probes.needles import CODE, Asked, Needle, needles, score
from k3repro.probes.signature import signature
from k3repro.twin._needle import answer_question


def asked(count: int, *, start: int = 0, wave: str = "w") -> list[Asked]:
    return [
        Asked(f"{wave}-{n}", wave, item, f" {item.code}.", True, False, start, start + 100)
        for n, item in enumerate(needles("seed", 40)[start % 7 : start % 7 + count])
    ]


@given(st.text(max_size=10), st.integers(1, 400))
def test_needles_are_distinct_and_fit_the_grammar_of_the_twin(seed: str, count: int) -> None:
    found = needles(seed, count)
    assert len({item.code for item in found}) == len({item.key for item in found}) == count
    for item in found[:5]:
        assert CODE.fullmatch(item.code)
        assert answer_question(f"x {item.sentence} y\n\n{item.question}") == item.code


def test_clean_replies_are_hits() -> None:
    assert {result.outcome for result in score(asked(8))} == {"hit"}


def test_every_pair_of_a_swap_is_named() -> None:
    """Issue 2, ik_llama.cpp#1932: K requests answered with each other's codeword."""
    entries = asked(8)
    texts = [entry.text for entry in entries]
    swapped = [replace(entry, text=text) for entry, text in zip(entries, texts[1:] + texts[:1], strict=True)]
    scores = score(swapped)
    assert {result.outcome for result in scores} == {"leak"}
    assert [result.leaks[0].owner for result in scores] == [f"w-{(n + 1) % 8}" for n in range(8)]
    assert {leak.timing for result in scores for leak in result.leaks} == {"concurrent"}


def test_a_leak_from_a_finished_request_points_at_recycled_state() -> None:
    first = asked(2, wave="a")
    later = [
        replace(asked(1, wave="b")[0], needle=Needle("other-key", "OTHERWORD-1234"), sent_ns=500, done_ns=600)
    ]
    later = [replace(later[0], text=first[0].text)]
    scores = score([*first, *later])
    assert scores[-1].leaks[0].timing == "finished" and scores[-1].leaks[0].owner == "a-0"
    assert signature([*first, *later], scores, {"a-0": 1, "a-1": 1, "b-0": 8}).startswith("state recycled")


@pytest.mark.parametrize(
    ("change", "outcome"),
    [
        ({"text": " I do not know."}, "miss"),
        ({"text": " Let me think about it: the", "capped": True}, "capped"),
        ({"text": " NOBODYS-9999"}, "foreign"),
        ({"text": "", "completed": False}, "failed"),
    ],
)
def test_a_miss_is_not_a_cap_a_failure_or_a_stray_code(change: dict[str, object], outcome: str) -> None:
    entries = asked(3)
    entries[1] = replace(entries[1], **change)  # type: ignore[arg-type]
    assert [result.outcome for result in score(entries)] == ["hit", outcome, "hit"]


@given(st.text("ABC-1234567890x", max_size=12))
def test_only_the_exact_token_counts(noise: str) -> None:
    entry = asked(1)[0]
    if noise and (noise[0].isalnum() or noise[0] == "-"):
        (result,) = score([replace(entry, text=f"{entry.needle.code}{noise}")])
        assert result.outcome != "hit" or f" {entry.needle.code}" in f" {noise}"


def test_two_requests_with_one_code_are_refused() -> None:
    entry = asked(1)[0]
    with pytest.raises(InputError, match="same code"):
        score([entry, replace(entry, request_id="other")])


def test_the_power_of_a_gate_is_printed_as_the_publication_would_need_it() -> None:
    assert power(57, 57) == "57 of 57: failure rate below 5.1 % at 95 %"
    assert sum(rung.requests for rung in plan(Parameters())) == 57
    assert sum(rung.requests for rung in plan(Parameters(max_rate=0.01))) == 299
    assert [rung.concurrency for rung in plan(Parameters())] == [1, 8, 16, 32]


def test_a_prompt_that_is_sent_back_recalls_nothing() -> None:
    (needle,) = needles("echo", 1)
    filler = " ".join(f"word{n}" for n in range(400))

    def outcome(text: str, tokens: int | None) -> str:
        return score([Asked("r", "w", needle, text, True, False, 0, 100, tokens)])[0].outcome

    assert outcome(f"{filler} {needle.sentence} {needle.question}", 64) == "echo"
    assert outcome(needle.sentence, 12) == outcome(f" {needle.code}", 1) == "hit"
    assert outcome(f"{filler} {needle.code}", 700) == outcome(f"{filler} {needle.code}", None) == "hit"
    assert outcome(f"{' ' * 9000}{needle.code}", 64) == "hit"  # white space is no text
