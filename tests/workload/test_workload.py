"""Lengths, arrivals and traces: the same for one seed, inside their bounds, close to what was declared."""

from __future__ import annotations

import itertools
import json
import statistics
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3repro.errors import InputError, UsageError
from k3repro.workload import ClosedLoop, OpenLoop, Workload, generate, parse_lengths, read_corpus


@pytest.mark.parametrize(
    ("text", "mean", "highest"),
    [
        ("1024", 1024, 1024),
        ("50K", 50_000, 50_000),
        ("512..2048", 1280, 2048),
        ("normal:1000,200", 1000, 1618),
    ],
)
def test_lengths_say_what_they_are(text: str, mean: float, highest: int) -> None:
    lengths = parse_lengths(text)
    assert (lengths.mean, lengths.highest) == (mean, highest)
    assert parse_lengths(str(lengths)) == lengths
    drawn = lengths.draw(4000, seed=1)
    assert statistics.fmean(drawn) == pytest.approx(mean, rel=0.03)
    assert lengths.draw(4000, seed=1) == drawn and min(drawn) >= 1


def test_a_lognormal_has_its_median_and_its_p99() -> None:
    drawn = sorted(parse_lengths("lognormal:1000,8000").draw(20_000, seed=3))
    assert drawn[10_000] == pytest.approx(1000, rel=0.05) and drawn[19_800] == pytest.approx(8000, rel=0.1)
    assert statistics.fmean(drawn) == pytest.approx(parse_lengths("lognormal:1000,8000").mean, rel=0.05)


@pytest.mark.parametrize("text", ["", "-5", "0", "ten", "9..5", "zipf:1,2", "lognormal:10", "normal:1,x"])
def test_what_is_no_length_is_refused_with_the_forms(text: str) -> None:
    with pytest.raises(UsageError, match="lognormal:1000,8000"):
        parse_lengths(text)


@given(
    rate=st.floats(0.1, 500), process=st.sampled_from(["poisson", "uniform", "burst"]), seed=st.integers(0, 9)
)
def test_arrivals_ascend_and_repeat(rate: float, process: str, seed: int) -> None:
    times = OpenLoop(rate, process).arrivals(seed, count=64)
    assert len(times) == 64 and times == sorted(times) and times[0] == 0.0
    assert times == OpenLoop(rate, process).arrivals(seed, count=64)


@pytest.mark.parametrize("process", ["poisson", "uniform", "burst"])
def test_an_open_loop_brings_its_rate_and_a_ramp_brings_half_of_it(process: str) -> None:
    steady = OpenLoop(50, process).arrivals(7, duration_s=100)
    assert len(steady) == pytest.approx(5000, rel=0.05)
    ramped = OpenLoop(50, process, ramp_s=100).arrivals(7, duration_s=100)
    assert len(ramped) == pytest.approx(2500, rel=0.05)
    assert sum(when < 50 for when in ramped) == pytest.approx(625, rel=0.15)


def test_poisson_gaps_vary_as_much_as_they_are_long_and_bursts_come_together() -> None:
    times = OpenLoop(10).arrivals(1, count=5000)
    gaps = [b - a for a, b in itertools.pairwise(times)]
    assert statistics.stdev(gaps) == pytest.approx(statistics.fmean(gaps), rel=0.1)
    assert OpenLoop(8, "burst", burst=4).arrivals(1, count=8) == [0, 0, 0, 0, 0.5, 0.5, 0.5, 0.5]


def test_sessions_of_a_closed_loop_have_no_arrival_and_share_prefixes_by_group() -> None:
    made = Workload(
        parse_lengths(100), parse_lengths("5..9"), ClosedLoop(4), prefix_tokens=40, prefix_groups=2
    )
    sessions = made.sessions(6, seed=5)
    assert [session.group for session in sessions] == [0, 1, 0, 1, 0, 1]
    assert {session.arrival_s for session in sessions} == {None}
    assert all(s.turns[0].prefix_tokens == 40 and 5 <= s.turns[0].osl <= 9 for s in sessions)
    assert Workload.of(made.as_dict()) == made and made.longest == 109


def test_a_corpus_starts_over_when_it_runs_out_and_keeps_its_turns() -> None:
    corpus = generate("small")
    workload = Workload(corpus=corpus, arrival=OpenLoop(5))
    sessions = workload.sessions(len(corpus.sessions) + 1, seed=2)
    assert sessions[-1].turns == sessions[0].turns and sessions[-1].name == f"{sessions[0].name}.1"
    assert sessions[1].arrival_s is not None and workload.mean_isl > 0


@pytest.mark.parametrize(
    ("given_", "words"),
    [
        ({"isl": 10, "prefix_tokens": 10}, "leaves nothing"),
        ({"users": 2, "rate": 1.0}, "not both"),
        ({"rate": 0.0}, "above 0"),
        ({"rate": 1.0, "arrival": "weird"}, "poisson"),
        ({"users": 0}, "At least one"),
        ({"speed": 3}, "no speed"),
    ],
)
def test_nonsense_is_one_sentence(given_: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Workload.of(given_)


def test_an_open_loop_without_an_end_is_refused() -> None:
    with pytest.raises(UsageError, match="--duration"):
        Workload(arrival=OpenLoop(1)).sessions()


def test_csv_sharegpt_and_chat_are_read(tmp_path: Path) -> None:
    table = tmp_path / "trace.csv"
    table.write_text("isl, osl,arrival_s,session\n100,5,0.5,a\n120,6,0.75,a\n90,7,1.5,b\n", encoding="utf-8")
    a, b = read_corpus(table).sessions
    assert [turn.isl for turn in a.turns] == [100, 120] and (a.arrival_s, b.arrival_s) == (0.5, 1.5)
    talk = tmp_path / "sharegpt.json"
    said = [{"from": "human", "value": "x" * 40}, {"from": "gpt", "value": "y" * 8}] * 2
    talk.write_text(json.dumps([{"id": "t", "conversations": said}, {"conversations": said[:1]}]), "utf-8")
    corpus = read_corpus(talk)
    assert corpus.estimated and [(t.isl, t.osl) for t in corpus.sessions[0].turns] == [(10, 2), (23, 2)]
    assert corpus.dropped == (("conversation without an answer", 1),)
    chat = tmp_path / "chat.jsonl"
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        {"role": "assistant", "content": "yo"},
    ]
    chat.write_text(json.dumps({"messages": messages}), "utf-8")
    counted = read_corpus(chat, count=len)
    assert not counted.estimated and (counted.sessions[0].turns[0].isl, counted.sessions[0].turns[0].osl) == (
        2,
        2,
    )


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.csv", "in,out\n1,2\n", "header needs isl and osl"),
        ("a.csv", "isl,osl\nten,2\n", "line 2.*not a number"),
        ("a.csv", "isl,osl\n0,2\n", "whole number"),
        ("a.json", "[1]", "not a JSON object"),
        ("a.jsonl", "{}", "ShareGPT"),
        ("a.json", '[{"conversations": []}]', "nothing that can be replayed"),
    ],
)
def test_a_file_that_is_no_workload_says_where(tmp_path: Path, name: str, text: str, words: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=words):
        read_corpus(tmp_path / name)
