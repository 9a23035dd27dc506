"""aiperf, guidellm and `vllm bench serve` against `k3repro twin serve`: they report what the twin knows.

Means of time to first token and of inter-token latency agree within 2 % with the twin's own log: when a
request arrived and when each token was written. Real time, so a busy machine makes clients late; how late
the twin itself was is printed with each comparison.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from real_tools import tool

pytestmark = [pytest.mark.engine, pytest.mark.slow]
_PROGRAM = "import sys; from k3repro.cli import main; main(sys.argv[1:])"
REQUESTS, PROMPT, OUTPUT, TOGETHER = 24, 256, 32, 4
TOLERANCE = 0.02


class Twin:
    """`k3repro twin serve` in real time with its log."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "requests.jsonl"
        options = ["--port", "0", "--log", str(self.log), "--json"]
        self.process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, "twin", "serve", "--platform", "mi325x", *options],
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.process.stdout is not None
        self.url: str = json.loads(self.process.stdout.readline())["url"]

    def known(self) -> tuple[dict[str, float], dict[str, Any]]:
        """End it: mean TTFT and inter-token latency (ms) of the last REQUESTS requests, and its deadlines."""
        self.process.send_signal(signal.SIGTERM)
        rest, _ = self.process.communicate(timeout=30)
        lines = [json.loads(line) for line in self.log.read_text().splitlines()]
        # A client may try the server with a request of its own first.
        lines = sorted(lines, key=lambda line: line["arrival_ns"])[-REQUESTS:]
        assert len(lines) == REQUESTS and {line["output_tokens"] for line in lines} == {OUTPUT}
        first = [line["sent_ns"][0] - line["arrival_ns"] for line in lines]
        between = [(line["sent_ns"][-1] - line["sent_ns"][0]) / (OUTPUT - 1) for line in lines]
        means = {"ttft_ms": sum(first) / REQUESTS / 1e6, "itl_ms": sum(between) / REQUESTS / 1e6}
        return means, json.loads(rest)["deadlines"]


@pytest.fixture
def twin(tmp_path: Path) -> Iterator[Twin]:
    server = Twin(tmp_path)
    yield server
    if server.process.poll() is None:
        server.process.kill()
        server.process.communicate()


def tokenizer(executable: str, folder: Path) -> Path:
    """A tokenizer folder, written by the client's own Python."""
    python = Path(executable).parent / "python"
    subprocess.run([python, Path(__file__).parent / "tiny_tokenizer.py", folder], check=True, timeout=300)
    return folder


def run(command: list[str], folder: Path, **environment: str) -> None:
    kept = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "HF_HUB_OFFLINE")}
    done = subprocess.run(
        command, cwd=folder, env={**kept, **environment}, capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def compare(name: str, reported: Mapping[str, float], twin: Twin) -> None:
    known, deadlines = twin.known()
    off = {key: reported[key] / known[key] - 1 for key in known}
    late = deadlines["p99_ms"]
    for key, value in known.items():
        print(
            f"{name:8} {key:8} client {reported[key]:9.2f}  twin {value:9.2f}  off {100 * off[key]:+.2f} %  "
            f"(twin's deadlines: p99 {late if late is None else round(late, 2)} ms late)"
        )
    assert max(map(abs, off.values())) <= TOLERANCE, (name, reported, known, deadlines)


def test_aiperf_agrees(twin: Twin, tmp_path: Path) -> None:
    aiperf = tool("aiperf")
    folder = tokenizer(aiperf, tmp_path / "tokenizer")
    run(
        [
            aiperf, "profile", "-m", "kimi-k3", "--tokenizer", str(folder), "--url", twin.url,
            "--endpoint-type", "completions", "--streaming", "--isl", str(PROMPT), "--osl", str(OUTPUT),
            "--request-count", str(REQUESTS), "--concurrency", str(TOGETHER),
            "--extra-inputs", "ignore_eos:true",
            "--use-server-token-count", "--artifact-dir", "out", "--ui", "none",
        ],
        tmp_path,
    )  # fmt: skip
    report = json.loads((tmp_path / "out" / "profile_export_aiperf.json").read_text())
    assert report["request_count"]["avg"] == REQUESTS
    ttft, itl = report["time_to_first_token"], report["inter_token_latency"]
    assert ttft["unit"] == itl["unit"] == "ms"
    compare("aiperf", {"ttft_ms": ttft["avg"], "itl_ms": itl["avg"]}, twin)


def test_guidellm_agrees(twin: Twin, tmp_path: Path) -> None:
    guidellm = tool("guidellm")
    folder = tokenizer(guidellm, tmp_path / "tokenizer")
    run(
        [
            guidellm, "run", "--backend", f"kind=openai_http,target={twin.url},model=kimi-k3", "--tokenizer",
            f"kind=hf_auto,model={folder}", "--profile", f"kind=concurrent,streams={TOGETHER}",
            "--constraint", f"kind=max_requests,count={REQUESTS}", "--data",
            f"kind=synthetic_text,prompt_tokens={PROMPT},output_tokens={OUTPUT}", "--output",
            "kind=json,path=out.json", "--disable-console-interactive",
        ],
        tmp_path, HF_HUB_OFFLINE="1",
    )  # fmt: skip
    metrics = json.loads((tmp_path / "out.json").read_text())["benchmarks"][0]["metrics"]
    ttft = metrics["time_to_first_token_ms"]["successful"]
    assert ttft["count"] == REQUESTS
    itl = metrics["inter_token_latency_ms"]["successful"]["mean"]
    compare("guidellm", {"ttft_ms": ttft["mean"], "itl_ms": itl}, twin)


def test_vllm_bench_agrees(twin: Twin, tmp_path: Path) -> None:
    vllm = tool("vllm")
    folder = tokenizer(vllm, tmp_path / "tokenizer")
    run(
        [
            vllm, "bench", "serve", "--backend", "openai", "--base-url", twin.url, "--endpoint",
            "/v1/completions", "--model", "kimi-k3", "--tokenizer", str(folder), "--dataset-name", "random",
            "--random-input-len", str(PROMPT), "--random-output-len", str(OUTPUT), "--num-prompts",
            str(REQUESTS), "--max-concurrency", str(TOGETHER), "--ignore-eos", "--save-result",
            "--result-filename", "out.json", "--disable-tqdm",
        ],
        tmp_path, HF_HUB_OFFLINE="1",
    )  # fmt: skip
    result = json.loads((tmp_path / "out.json").read_text())
    assert result["completed"] == REQUESTS
    compare("vllm", {"ttft_ms": result["mean_ttft_ms"], "itl_ms": result["mean_itl_ms"]}, twin)


def test_the_option_table_is_that_of_the_installed_vllm() -> None:
    """Every option `vllm serve` lists is known to the process twin, and the other way round."""
    vllm = tool("vllm")
    shown = subprocess.run([vllm, "serve", "--help=all"], capture_output=True, text=True, timeout=400).stdout
    listed = set(re.findall(r"^  (?:-\w+(?: [A-Z_]+)?, )?--([a-z0-9-]+)", shown, re.MULTILINE)) - {"help"}
    table = tomllib.loads(files("k3repro.twin.engine").joinpath("flags.toml").read_text())
    known = {name for kind in ("switch", "pair", "value", "many") for name in table[kind]}
    assert len(listed) > 250
    assert listed - known - set(table["alias"]) == set()


def test_our_client_agrees(twin: Twin) -> None:
    """The same load from our own client, closed loop; `latency` and `saturation` rest on it."""
    from k3repro.client import Request, open_target, run_wave

    requests = [Request(f"r{n}", f"{n} " + "harbour " * (PROMPT // 2), OUTPUT) for n in range(REQUESTS)]
    with open_target(twin.url) as target:
        records = target.run(run_wave, requests, concurrency=TOGETHER, wave="w")
    times = [(record.ttft_s, record.tpot_s) for record in records]
    ttft = sum(first or 0.0 for first, _ in times) / REQUESTS
    itl = sum(each or 0.0 for _, each in times) / REQUESTS
    compare("k3repro", {"ttft_ms": ttft * 1e3, "itl_ms": itl * 1e3}, twin)
