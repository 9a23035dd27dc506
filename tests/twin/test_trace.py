"""Journeys: phases of a request join without gaps, and the trace file is what Perfetto reads."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from k3repro.cli.artifacts import artifacts
from k3repro.client import REQUESTS_TABLE
from k3repro.store import Header, Schema, Store
from k3repro.twin import Core, platform
from k3repro.twin.trace import chrome_trace, phases_of, request_phases


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 9000), st.integers(1, 40)), min_size=1, max_size=20))
def test_phases_join_from_arrival_to_the_last_token(shapes: list[tuple[int, int]]) -> None:
    core = Core(platform("mi300x").with_overrides({"max_num_seqs": "1"}), 0)
    flights = [core.submit(prompt, output) for prompt, output in shapes]
    core.advance(10**16)
    for flight in flights:
        phases = phases_of(flight)
        assert phases[0]["start_ns"] == flight.arrival_ns
        assert phases[-1]["end_ns"] == flight.times[-1]
        prefill = [phase for phase in phases if phase["phase"] == "prefill"]
        assert sum(phase["tokens"] for phase in prefill) == flight.prompt_tokens
        assert sum(phase["tokens"] for phase in phases if phase["phase"] == "decode") == len(flight.times)
        assert all(a["end_ns"] <= b["start_ns"] for a, b in pairwise(phases))


def test_a_preempted_request_is_drawn_as_such() -> None:
    spec = platform("mi325x").with_overrides(
        {"lanes": "1", "kv_pool_bytes": str(10 * 79_626_240), "max_model_len": "34000", "jitter_ppm": "0"}
    )
    core = Core(spec, 0)
    flights = [core.submit(5730, 200) for _ in range(2)]
    core.advance(10**16)
    drawn = [phase["phase"] for phase in phases_of(flights[1])]
    assert drawn.count("preempted") == 1 and drawn[-1] == "decode"
    decoded = sum(phase["tokens"] for phase in phases_of(flights[1]) if phase["phase"] == "decode")
    assert decoded >= 199


def _row(name: str, sent: int, first: int | None, done: int) -> dict[str, Any]:
    row: dict[str, Any] = {column.name: None for column in REQUESTS_TABLE.columns}
    return row | {
        "request_id": name, "wave": "w", "outcome": "completed", "intended_ns": sent, "sent_ns": sent,
        "first_token_ns": first, "last_token_ns": first and done, "done_ns": done, "events": 1, "text": "",
        "completion_tokens": 4,
    }  # fmt: skip


def test_requests_in_flight_together_have_lanes_of_their_own() -> None:
    rows = [_row("a", 0, 5, 10), _row("b", 1, 6, 9), _row("c", 10, None, 12)]
    phases = list(request_phases(rows))
    lanes = {phase["name"]: phase["lane"] for phase in phases}
    assert lanes["a"] != lanes["b"] and lanes["c"] in (lanes["a"], lanes["b"])
    assert [phase["phase"] for phase in phases if phase["name"] == "c"] == ["first token"]


def _check(document: dict[str, Any], names: Sequence[str]) -> None:
    assert document["displayTimeUnit"] == "ms"
    for event in document["traceEvents"]:
        assert event["ph"] in ("X", "M") and isinstance(event["pid"], int)
        if event["ph"] == "X":
            assert event["dur"] > 0 and event["ts"] >= 0 and event["name"] in names


def test_the_trace_of_a_wave_opens_in_chrome() -> None:
    core = Core(platform("mi325x"), 0)
    flights = [core.submit(3000, 20) for _ in range(8)]
    core.advance(10**15)
    document = chrome_trace(phase for flight in flights for phase in phases_of(flight))
    _check(document, ("queue", "prefill", "hold", "transfer", "decode"))
    pools = {event["args"]["name"] for event in document["traceEvents"] if event["ph"] == "M"}
    assert pools == {"prefill", "wire", "decode"}


def test_the_command_draws_any_artifact_with_requests(tmp_path: Path) -> None:
    store = Store(tmp_path)
    header = Header("envelope", "twin:mi325x", "probe", "tests:none", serve={"id": "x"})
    with store.begin(header, Schema((REQUESTS_TABLE,))) as run:
        run.commit("w", {"requests": [_row("a", 0, 5, 10), _row("b", 1, 6, 9)]})
        sealed = run.seal({"ok": True, "reasons": []})
    runner, root = CliRunner(), str(store.root)
    out = runner.invoke(artifacts, ["trace", sealed.seal[:12], "--store", root])
    assert out.exit_code == 0, out.output
    _check(json.loads(out.output), ("first token", "stream"))
    target = store.root / "t.json"
    out = runner.invoke(artifacts, ["trace", sealed.seal[:12], "--store", root, "--to", str(target)])
    assert out.exit_code == 0 and "perfetto" in out.output.lower()
    _check(json.loads(target.read_text()), ("first token", "stream"))
