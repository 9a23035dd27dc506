"""The driver of other harnesses against a real aiperf: same corpus, same serve, same tables as ours.

Times are printed, not asserted: both clients share two cores with the simulated server.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from real_tools import tool

from k3repro.probes import Silent, run_probe
from k3repro.probes.agentic import command, drive, ingest
from k3repro.store import Artifact, Store

pytestmark = [pytest.mark.engine, pytest.mark.slow]
_PROGRAM = "import sys; from k3repro.cli import main; main(sys.argv[1:])"
SESSIONS, TURNS, OUTPUT, LANES, WINDOW_S = 6, 8, 12, 2, 15.0


@pytest.fixture
def serve() -> Iterator[str]:
    """`k3repro twin serve`, five times as fast as real."""
    options = ["--platform", "mi325x", "--port", "0", "--time-scale", "5", "--json"]
    process = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, "twin", "serve", *options], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield json.loads(process.stdout.readline())["url"]
    finally:
        process.terminate()
        process.communicate(timeout=30)


def corpus(folder: Path) -> Path:
    """Weka traces: every turn repeats the one before and adds to it."""
    folder.mkdir()
    for session in range(SESSIONS):
        requests, blocks, at = [], list(range(40)), 0.0
        for turn in range(TURNS):
            blocks = [*blocks, *(1000 * session + 100 + 6 * turn + n for n in range(6))]
            requests.append({
                "t": round(at, 3), "type": "s", "model": "kimi-k3", "in": len(blocks) * 16 - 3, "out": OUTPUT,
                "hash_ids": blocks, "input_types": ["text"], "output_types": ["text"],
                "stop": "end_turn" if turn == TURNS - 1 else "tool_use", "api_time": 0.4,
                "think_time": 0.3 if turn else 0.0, "ttft": 0.1,
            })  # fmt: skip
            at += 0.7
        trace = {"id": f"trace_{session}", "models": ["kimi-k3"], "block_size": 16, "hash_id_scope": "local",
                 "tool_tokens": 100, "system_tokens": 100, "requests": requests}  # fmt: skip
        (folder / f"trace_{session}.json").write_text(json.dumps(trace), encoding="utf-8")
    return folder


def row_of(artifact: Artifact) -> dict[str, object]:
    (row,) = artifact.rows("replay")
    return row


def test_aiperf_and_our_replay_fill_the_same_tables_on_the_same_serve(serve: str, tmp_path: Path) -> None:
    aiperf = Path(tool("aiperf")).absolute()
    tokenizer = tmp_path / "tokenizer"
    python = aiperf.parent / "python"
    subprocess.run([python, Path(__file__).parent / "tiny_tokenizer.py", tokenizer], check=True, timeout=300)
    traces, output, store = corpus(tmp_path / "traces"), tmp_path / "out", Store(tmp_path / "artifacts")
    line = command(
        "aiperf", environment=aiperf.parent.parent, url=serve, model="kimi-k3", corpus=traces, output=output,
        concurrency=LANES, window_s=WINDOW_S, warmup_s=3, tokenizer=str(tokenizer),
    )  # fmt: skip
    drive(line, timeout_s=500)
    theirs = ingest(output, store=store, corpus="traces", target=serve)
    ours = run_probe(
        "agentic", target=serve, store=store, unsafe=True, progress=Silent(), corpus=str(traces),
        concurrency=LANES, warmup_s=3.0, window_s=WINDOW_S,
    )  # fmt: skip
    assert theirs.serve["id"] == ours.serve["id"] and theirs.tier == ours.tier == "simulated"
    their_row, our_row = row_of(theirs), row_of(ours)
    assert their_row.keys() == our_row.keys() and str(their_row["harness"]).startswith("aiperf 0.")
    for artifact in (theirs, ours):
        done = [
            row
            for row in artifact.rows("turns")
            if row["phase"] == "window" and row["outcome"] == "completed"
        ]
        assert done and {row["completion_tokens"] for row in done} == {OUTPUT}
        assert {row["turn"] for row in done} <= set(range(TURNS))
        assert row_of(artifact)["errors"] == 0 and len({row["session"] for row in done}) <= SESSIONS
    # A window shorter than the scenario asks for is no submission, and the ingested verdict says so.
    assert theirs.verdict["reasons"] == ["harness: unsafe_override"]
    for name in (
        "completed",
        "cut",
        "input_p50",
        "ttft_p50_s",
        "itl_p50_s",
        "active_s",
        "active_tokens_per_s",
    ):
        print(f"{name:22} aiperf {their_row[name]!s:>22}  ours {our_row[name]!s:>22}")
