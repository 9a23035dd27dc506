"""Our records against aiperf's and guidellm's: the same 64 requests, in one run, closed and open loop.

Each gets a fresh server whose times depend on the request alone (timed_server.py), so what differs is the
clients. A rate is requests over the time from the first send to the last response, as in the records of all
three. aiperf's `request_throughput` divides by its whole phase instead, until it has seen that every request
ended: 0.2 s more in a run of 13 s.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import timed_server
from real_tools import tool
from test_clients import TOLERANCE, run, tokenizer

from k3repro.client import Request, open_target, run_wave

pytestmark = [pytest.mark.engine, pytest.mark.slow]
REQUESTS, TOGETHER, OUTPUT, RATE = 64, 16, 64, 6.0
PROMPTS = [f"{n} " + "prefill decode cache token " * 16 for n in range(REQUESTS)]
Means = dict[str, float]


@contextmanager
def serving() -> Iterator[str]:
    process = subprocess.Popen([sys.executable, timed_server.__file__], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


def ours(url: str, loop: str, folder: Path) -> Means:
    with open_target(url) as target:
        start = target.now_ns() + 200_000_000
        due = [None if loop == "closed" else start + round(n * 1e9 / RATE) for n in range(REQUESTS)]
        requests = [
            Request(f"r{n}", prompt, OUTPUT, intended_ns=when)
            for n, (prompt, when) in enumerate(zip(PROMPTS, due, strict=True))
        ]
        together = TOGETHER if loop == "closed" else REQUESTS
        records = target.run(run_wave, requests, concurrency=together, wave="w")
    first, between = (
        [record.ttft_s or 0.0 for record in records],
        [record.tpot_s or 0.0 for record in records],
    )
    span = max(record.done_ns for record in records) - min(record.sent_ns for record in records)
    assert {record.completion_tokens for record in records} == {OUTPUT}
    return {
        "ttft_ms": sum(first) / REQUESTS * 1e3,
        "itl_ms": sum(between) / REQUESTS * 1e3,
        "requests_per_s": REQUESTS / span * 1e9,
    }


def aiperf(url: str, loop: str, folder: Path) -> Means:
    program = tool("aiperf")
    lines = [json.dumps({"text": prompt, "output_length": OUTPUT}) for prompt in PROMPTS]
    (folder / "requests.jsonl").write_text("\n".join(lines) + "\n")
    load = (
        ["--concurrency", str(TOGETHER)]
        if loop == "closed"
        else ["--request-rate", str(RATE), "--arrival-pattern", "constant"]
    )
    run(
        [
            program, "profile", "-m", "timed", "--tokenizer", str(tokenizer(program, folder / "tokenizer")),
            "--url", url, "--endpoint-type", "completions", "--streaming", "--input-file", "requests.jsonl",
            "--custom-dataset-type", "single_turn", "--dataset-sampling-strategy", "sequential",
            "--request-count", str(REQUESTS), *load, "--use-server-token-count", "--artifact-dir", "out",
            "--ui", "none",
        ],
        folder,
    )  # fmt: skip
    report = json.loads((folder / "out" / "profile_export_aiperf.json").read_text())
    assert report["request_count"]["avg"] == REQUESTS
    return {
        "ttft_ms": report["time_to_first_token"]["avg"],
        "itl_ms": report["inter_token_latency"]["avg"],
        "requests_per_s": REQUESTS / report["benchmark_duration"]["avg"],
    }


def guidellm(url: str, loop: str, folder: Path) -> Means:
    program = tool("guidellm")
    lines = [json.dumps({"prompt": prompt, "output_tokens_count": OUTPUT}) for prompt in PROMPTS]
    (folder / "requests.jsonl").write_text("\n".join(lines) + "\n")
    profile = f"kind=concurrent,streams={TOGETHER}" if loop == "closed" else f"kind=constant,rate={RATE}"
    run(
        [
            program, "run", "--backend",
            f"kind=openai_http,target={url},model=timed,request_format=/v1/completions", "--tokenizer",
            f"kind=hf_auto,model={tokenizer(program, folder / 'tokenizer')}", "--profile", profile,
            "--constraint", f"kind=max_requests,count={REQUESTS}",
            "--data", "kind=json_file,path=requests.jsonl", "--output", "kind=json,path=out.json",
            "--disable-console-interactive",
        ],
        folder, HF_HUB_OFFLINE="1",
    )  # fmt: skip
    metrics = json.loads((folder / "out.json").read_text())["benchmarks"][0]["metrics"]
    assert metrics["time_to_first_token_ms"]["successful"]["count"] == REQUESTS
    return {
        "ttft_ms": metrics["time_to_first_token_ms"]["successful"]["mean"],
        "itl_ms": metrics["inter_token_latency_ms"]["successful"]["mean"],
        "requests_per_s": metrics["requests_per_second"]["successful"]["mean"],
    }


@pytest.mark.parametrize("loop", ["closed", "open"])
def test_our_records_are_those_of_the_peers(loop: str, tmp_path: Path) -> None:
    peers: dict[str, Callable[[str, str, Path], Means]] = {"aiperf": aiperf, "guidellm": guidellm}
    for name in peers:
        tool(name)
    known = _measured(ours, loop, tmp_path / "ours")
    expected = [timed_server.times(n) for n in range(REQUESTS)]
    truth = {
        "ttft_ms": sum(first for first, _ in expected) / REQUESTS * 1e3,
        "itl_ms": sum(gap for _, gap in expected) / REQUESTS * 1e3,
    }
    off = {f"truth {key}": known[key] / value - 1 for key, value in truth.items()}
    for name, measure in peers.items():
        theirs = _measured(measure, loop, tmp_path / name)
        for key, value in theirs.items():
            off[f"{name} {key}"] = share = known[key] / value - 1
            print(f"{loop:6} {name:8} {key:14} {value:9.3f}  ours {known[key]:9.3f}  off {share:+.2%}")
    assert max(map(abs, off.values())) <= TOLERANCE, off


def _measured(measure: Callable[[str, str, Path], Means], loop: str, folder: Path) -> Means:
    folder.mkdir()
    with serving() as url:
        return measure(url, loop, folder)
