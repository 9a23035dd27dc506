"""Corpora, their gate, readers, the replay, and what other harnesses recorded."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3repro.errors import InputError, MissingExtra, UsageError
from k3repro.probes import run_probe
from k3repro.probes.agentic import AXES, command, drive, ingest, pre_gate
from k3repro.probes.agentic.tables import active_s, summarise
from k3repro.store import Store
from k3repro.workload import Corpus, Session, Turn, generate, profile_names, read_corpus


@pytest.mark.parametrize("name", profile_names())
def test_a_generated_corpus_passes_all_thirteen_axes_and_is_the_same_again(name: str) -> None:
    corpus = generate(name)
    axes = pre_gate(corpus, name)
    assert len(axes) == AXES and all(axis.ok for axis in axes), [axis for axis in axes if not axis.ok]
    assert generate(name) == corpus


def _longer(turn: Turn) -> Turn:
    return replace(turn, isl=turn.isl * 2)


def _hasty(turn: Turn) -> Turn:
    return replace(turn, delay_s=turn.delay_s / 5)


def _wordy(turn: Turn) -> Turn:
    return replace(turn, osl=turn.osl * 3)


def _fresh(turn: Turn) -> Turn:
    return replace(turn, blocks=tuple(range(10**6 + turn.osl, 10**6 + turn.osl + 3)))


@pytest.mark.parametrize(
    ("spoil", "axis"), [(_longer, "isl"), (_hasty, "delay"), (_wordy, "osl"), (_fresh, "cache")]
)
def test_the_gate_finds_a_corpus_that_is_not_what_it_declares(spoil: Any, axis: str) -> None:
    corpus = generate("small")
    spoilt = tuple(replace(s, turns=tuple(map(spoil, s.turns))) for s in corpus.sessions)
    bad = {
        found.name.partition("_")[0]
        for found in pre_gate(replace(corpus, sessions=spoilt), "small")
        if not found.ok
    }
    assert bad == {axis}


def test_the_gate_finds_sessions_of_another_length() -> None:
    corpus = generate("small")
    short = tuple(replace(s, turns=s.turns[:2]) for s in corpus.sessions)
    bad = {axis.name for axis in pre_gate(replace(corpus, sessions=short), "small") if not axis.ok}
    assert "turns_p99" in bad
    with pytest.raises(InputError, match="without turns"):
        pre_gate(Corpus("none", 64, ()), "small")


def test_sessions_that_do_not_fit_are_dropped_and_counted() -> None:
    corpus = generate("conformance_512k")
    kept = corpus.within(300_000)
    assert len(kept.sessions) < len(corpus.sessions)
    assert kept.dropped == (("longer than 300000 tokens", len(corpus.sessions) - len(kept.sessions)),)


WEKA = {
    "id": "one", "block_size": 16, "hash_id_scope": "local",
    "requests": [
        {"t": 0.0, "type": "s", "in": 100, "out": 5, "hash_ids": [0, 1, 2], "api_time": 1.0,
         "think_time": 0.0},
        {"t": 3.5, "type": "s", "in": 120, "out": 6, "hash_ids": [0, 1, 3], "api_time": 1.0},
        {"type": "subagent", "requests": [{"t": 2.0, "in": 50, "out": 2, "hash_ids": [9]}]},
    ],
}  # fmt: skip


def test_weka_traces_are_read_with_think_time_reuse_and_subagents(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(WEKA), encoding="utf-8")
    corpus = read_corpus(tmp_path)
    by_name = {session.name: session for session in corpus.sessions}
    assert corpus.block_size == 16 and set(by_name) == {"one", "one/1"}
    assert [turn.delay_s for turn in by_name["one"].turns] == [0.0, 2.5]
    assert by_name["one"].reused(0) == 0 and by_name["one"].reused(1) == 2


def test_mooncake_lines_of_one_session_are_joined_and_text_is_counted_as_dropped(tmp_path: Path) -> None:
    lines = [
        {"input_length": 600, "output_length": 3, "hash_ids": [1, 2], "session_id": "s", "timestamp": 0},
        {"text_input": "hello", "output_length": 3},
        {"input_length": 900, "output_length": 4, "hash_ids": [1, 2, 3], "session_id": "s", "delay": 1500},
    ]
    path = tmp_path / "m.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    corpus = read_corpus(path)
    (session,) = corpus.sessions
    assert [turn.isl for turn in session.turns] == [600, 900] and session.turns[1].delay_s == 1.5
    assert corpus.dropped == (("carries text_input instead of lengths", 1),)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("{", "not JSON"),
        ("[1]", "not a JSON object"),
        ('{"x": 1}', "no trace that is known here"),
        ('{"requests": 3}', "not a list of objects"),
        ('{"requests": [{"in": 0, "out": 1}]}', "in is 0"),
        ('{"requests": [{"in": 5, "out": true}]}', "out is True"),
        ('{"requests": [{"in": 5, "out": 1, "think_time": -1}]}', "is not a time"),
        ('{"requests": [{"in": 5, "out": 1, "t": NaN}]}', "is not a time"),
        ('{"requests": [{"in": 5, "out": 1, "hash_ids": ["a"]}]}', "not a list of whole numbers"),
        ('{"requests": []}', "nothing that can be replayed"),
    ],
)
def test_bad_traces_are_named_in_one_line(tmp_path: Path, text: str, what: str) -> None:
    (tmp_path / "t.json").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=what):
        read_corpus(tmp_path)


def test_a_corpus_that_is_not_here_says_so(tmp_path: Path, store: Store) -> None:
    with pytest.raises(InputError, match="no such corpus"):
        read_corpus(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="not available here"):
        generate("inferencex_256k")
    (tmp_path / "b.json").write_bytes(b"\xff\xfe{}")
    with pytest.raises(InputError, match="UTF-8"):
        read_corpus(tmp_path)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda x: (
            st.lists(x)
            | st.dictionaries(
                st.sampled_from(
                    ["requests", "in", "out", "t", "input_length", "hash_ids", "id", "block_size"]
                ),
                x,
            )
        ),
        max_leaves=12,
    )
)
def test_hostile_traces_end_in_an_input_error_or_a_corpus(
    tmp_path_factory: pytest.TempPathFactory, document: Any
) -> None:
    path = tmp_path_factory.mktemp("hostile") / "t.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    with contextlib.suppress(InputError):
        assert read_corpus(path).turns > 0


def test_a_replay_on_the_clean_twin_is_valid_and_counts_what_it_cut(store: Store) -> None:
    small = {"concurrency": 4, "warmup_s": 20.0, "window_s": 120.0}
    run_probe("needle-gate", target="twin:mi325x", store=store, context=1000, concurrency=(1, 4))
    done = run_probe("agentic", target="twin:mi325x", store=store, **small)
    assert done.verdict["ok"], done.verdict
    with pytest.raises(UsageError, match="Leave --sessions out"):  # and nothing is sent
        run_probe("agentic", target="twin:mi325x", store=store, sessions=8, **small)
    (replay,) = done.rows("replay")
    turns = done.rows("turns")
    phases = {
        phase: [row for row in turns if row["phase"] == phase] for phase in ("warm-up", "window", "cut")
    }
    assert replay["completed"] == len(phases["window"]) > 0 and replay["errors"] == 0
    assert replay["cut"] == len(phases["cut"]) > 0 and phases["warm-up"]
    assert all(abs(row["prompt_tokens"] / row["isl"] - 1) < 0.05 for row in turns)
    assert all(row["completion_tokens"] == row["osl"] for row in turns)
    assert 0 < replay["active_s"] <= 120 and replay["active_tokens_per_s"] >= replay["wall_tokens_per_s"]
    lanes: dict[int, list[dict[str, Any]]] = {}
    for row in sorted(turns, key=lambda row: row["sent_s"]):
        lanes.setdefault(row["lane"], []).append(row)
    for rows in lanes.values():
        assert all(after["sent_s"] >= before["done_s"] for before, after in pairwise(rows))


def test_active_rates_leave_out_think_time_by_definition() -> None:
    def turn(sent: float, done: float, **more: Any) -> dict[str, Any]:
        row = {"phase": "window", "outcome": "completed", "sent_s": sent, "done_s": done, "prompt_tokens": 90}
        return (
            row
            | {"completion_tokens": 10, "ttft_s": 1.0, "itl_s": 0.1, "cached_tokens": None, "reusable": 45}
            | more
        )

    turns = [turn(10, 12), turn(11, 13), turn(18, 19), turn(25, 40, phase="cut")]
    row = summarise(turns, window_s=20.0, warmup_s=10.0)
    assert active_s(turns, 10, 30) == 3 + 1 + 5 == row["active_s"]
    assert row["active_tokens_per_s"] == 300 / 9 and row["wall_tokens_per_s"] == 300 / 20
    assert (row["completed"], row["cut"], row["errors"]) == (3, 1, 0)
    assert row["cache_possible"] == 0.5 and row["cache_hit"] is None
    assert row["ttft_p50_s"] is None  # three turns carry no median


def record(number: int, phase: str = "profiling", **more: Any) -> str:
    about = {
        "x_request_id": f"r{number}", "conversation_id": "c", "turn_index": number, "benchmark_phase": phase,
        "request_start_ns": 10**18 + number * 10**9, "request_end_ns": 10**18 + number * 10**9 + 5 * 10**8,
        "was_cancelled": False,
    }  # fmt: skip
    metrics = {
        "time_to_first_token": {"value": 120.0, "unit": "ms"},
        "inter_token_latency": {"value": 0.005, "unit": "s"},
        "usage_prompt_tokens": {"value": 100, "unit": "tokens"},
        "usage_completion_tokens": {"value": 20, "unit": "tokens"},
    }  # fmt: skip
    document = {
        "metadata": about | more.pop("about", {}),
        "metrics": metrics | more.pop("metrics", {}),
        "error": None,
    }
    return json.dumps(document | more)


def harness(folder: Path, records: list[str], **summary: Any) -> Path:
    (folder / "profile_export.jsonl").write_text("\n".join(records), encoding="utf-8")
    document = {"aiperf_version": "0.13.0", "benchmark_duration": {"unit": "sec", "avg": 60.0}} | summary
    (folder / "profile_export_aiperf.json").write_text(json.dumps(document), encoding="utf-8")
    return folder


def test_records_of_aiperf_enter_the_same_tables_by_their_units(tmp_path: Path, store: Store) -> None:
    lines = [record(0, "warmup"), *(record(n) for n in range(1, 12))]
    lines.append(record(12, about={"was_cancelled": True}))
    lines.append(record(13, error={"type": "x"}))
    found = ingest(harness(tmp_path, lines), store=store, name_as="kimi-k3", corpus="small")
    (row,) = found.rows("replay")
    assert (row["completed"], row["cut"], row["errors"]) == (11, 1, 1)
    assert row["ttft_p50_s"] == pytest.approx(0.12) and row["itl_p50_s"] == pytest.approx(0.005)
    assert found.tier == "unverified" and found.verdict["reasons"] == ["1 turns of the window failed"]


@pytest.mark.parametrize(
    ("lines", "summary", "what"),
    [
        (["{"], {}, "not a record of aiperf"),
        (
            [record(1, metrics={"time_to_first_token": {"value": 3, "unit": "fortnights"}})],
            {},
            "not a known unit",
        ),
        ([record(1, metrics={"usage_prompt_tokens": {"value": None}})], {}, "has no number"),
        ([], {}, "no records"),
        ([record(1)], {"benchmark_duration": None}, "has no number"),
    ],
)
def test_damaged_records_are_named(
    tmp_path: Path, store: Store, lines: list[str], summary: dict[str, Any], what: str
) -> None:
    with pytest.raises(InputError, match=what):
        ingest(harness(tmp_path, lines, **summary), store=store, name_as="x", corpus="small")


def test_a_harness_that_says_it_is_not_valid_is_believed(tmp_path: Path, store: Store) -> None:
    folder = harness(tmp_path, [record(1)], metadata={"submission_invalid_reasons": ["unsafe_override"]})
    found = ingest(folder, store=store, name_as="x", corpus="small")
    assert found.verdict == {"ok": False, "reasons": ["harness: unsafe_override"]}


def test_a_harness_runs_in_its_own_environment_or_is_not_available_here(tmp_path: Path) -> None:
    line = command(
        "aiperf", environment=tmp_path, url="http://r:1", model="m", corpus=tmp_path, output=tmp_path,
        concurrency=2, window_s=60,
    )  # fmt: skip
    assert (
        line[0] == str(tmp_path / "bin" / "aiperf")
        and "--unsafe-override" in line
        and "inferencex-agentx-mvp" in line
    )
    with pytest.raises(MissingExtra, match="not available here: aiperf"):
        drive(line, timeout_s=1)
    program = tmp_path / "bin" / "aiperf"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho broken >&2; exit 3\n")
    program.chmod(0o755)
    with pytest.raises(Exception, match="exit code 3: broken"):
        drive(line, timeout_s=10)
    with pytest.raises(UsageError, match="no harness"):
        command("x", environment=tmp_path, url="", model="", corpus=tmp_path, output=tmp_path, concurrency=1)


def test_reuse_counts_leading_blocks_only() -> None:
    turns = (Turn(0, 64, 1, (1, 2, 3)), Turn(0, 64, 1, (1, 9, 3)), Turn(0, 64, 1, (1, 9, 3, 4)))
    session = Session("s", turns)
    assert [session.reused(index) for index in range(3)] == [0, 1, 3]
