"""Start and stop vLLM engines of launches.toml here, several side by side; read their start-up lines.

Everything listens on 127.0.0.1. An engine is ready when it has answered a completion. `$K3GPU_SITE` holds
vLLM (unpack.sh); without it the engine of `$K3REPRO_ENGINE_PYTHON` is asked (the rehearsal on a CPU).
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launches import Launch, write_model

from k3repro.probes.prompts import sentences

SCRATCH = Path(os.environ.get("K3GPU_SCRATCH", "/tmp/k3gpu"))
SITE = os.environ.get("K3GPU_SITE", "")
READY_S = float(os.environ.get("K3GPU_READY_S", "240"))
GIVEN = os.environ.get("K3GPU_MODEL", "")
"""A model folder to serve instead of the rank geometry: the rehearsal, and the small real model."""
MODEL = os.environ.get("K3GPU_NAME", "k3-rank")
_QUIET = {
    "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1",
    "VLLM_USE_FLASHINFER_SAMPLER": "0", "VLLM_USE_DEEP_GEMM": "0", "VLLM_RUST_FRONTEND": "0",
    "TRITON_CACHE_AUTOTUNING": "1", "OMP_NUM_THREADS": "2",
}  # fmt: skip
_PAIR = {"VLLM_SSM_CONV_STATE_LAYOUT": "DS", "VLLM_NIXL_SIDE_CHANNEL_HOST": "127.0.0.1"}
# What of a start-up log is kept: lines with facts, without paths, process ids and dates.
_FACTS = re.compile(
    r"(?:\w+ KV cache size: .*|Maximum concurrency for .*|Setting attention block size to .*"
    r"|Padding mamba page size by .*|Add \d+ padding layers.*|Setting SSM conv state layout to .*"
    r"|Hybrid SSM registration: .*|Reset SSM cache type to .*|Using \S+ (?:attention )?backend.*"
    r"|Using \S+ MLA prefill backend.*|Capturing CUDA graphs .*: 100%)"
)


@dataclass(frozen=True, slots=True)
class Seat:
    """Where an engine answers and how it was started: all that a probe in another process needs."""

    launch: Launch
    url: str
    flags: tuple[str, ...]
    ready_s: float
    device: int


@dataclass(slots=True)
class Serve:
    """A running engine."""

    launch: Launch
    url: str
    log: Path
    process: subprocess.Popen[bytes]
    flags: list[str]
    began: float
    folder: Path
    device: int
    ready_s: float = 0.0

    @property
    def seat(self) -> Seat:
        """What another process needs."""
        return Seat(self.launch, self.url, tuple(self.flags), self.ready_s, self.device)

    def config(self) -> dict[str, Any]:
        """The model's configuration as the engine read it."""
        found: dict[str, Any] = json.loads((self.folder / "config.json").read_text(encoding="utf-8"))
        return found

    def lines(self) -> list[str]:
        """The facts of its start-up log, each once, in order."""
        text = self.log.read_text(encoding="utf-8", errors="replace").replace("\r", "\n")
        found = [match[0].strip() for line in text.splitlines() if (match := _FACTS.search(line))]
        return list(dict.fromkeys(found))

    def tail(self, size: int = 1500) -> str:
        """The end of its log, errors first."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        errors = [line[-300:] for line in lines if "Error" in line][:6]
        return "\n".join([*errors, *(line[-300:] for line in lines[-8:])])[-size:]


@contextmanager
def started(wanted: Sequence[tuple[Launch, int, str, int]]) -> Iterator[list[Serve]]:
    """Engines of (launch, port, connector role, GPU), all started at once; those that died are left out."""
    with ExitStack() as stack:
        serves = [stack.enter_context(_engine(*one)) for one in wanted]
        yield _ready(serves)


@contextmanager
def _engine(launch: Launch, port: int, role: str, device: int) -> Iterator[Serve]:
    folder = Path(GIVEN) if GIVEN else write_model(SCRATCH / "models" / launch.name, launch)
    flags = json.loads(os.environ.get("K3GPU_FLAGS", "null")) or launch.flags(role)
    python = sys.executable if SITE else os.environ["K3REPRO_ENGINE_PYTHON"]
    command = [
        python, "-m", "vllm.entrypoints.openai.api_server", "--model", str(folder), "--served-model-name",
        MODEL, "--host", "127.0.0.1", "--port", str(port), *flags,
    ]  # fmt: skip
    environment = {**os.environ, **_QUIET, "PYTHONPATH": SITE, "K3_SPLITS": str(launch.splits or "")}
    if device:  # its own GPU first; the other stays visible, because a peer's memory is mapped through it
        environment["CUDA_VISIBLE_DEVICES"] = f"{device},0"
    if role:
        environment |= {**_PAIR, "VLLM_NIXL_SIDE_CHANNEL_PORT": str(port + 1000)}
    log = SCRATCH / "logs" / f"{launch.name}-{port}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as sink:
        process = subprocess.Popen(
            command, stdout=sink, stderr=subprocess.STDOUT, env=environment, start_new_session=True,
            cwd=log.parent,
        )  # fmt: skip
    serve = Serve(launch, f"http://127.0.0.1:{port}", log, process, flags, time.monotonic(), folder, device)
    try:
        yield serve
    finally:
        stop(serve)


def stop(serve: Serve) -> None:
    """End the engine's own session, and nothing else."""
    for sign, patience in ((signal.SIGTERM, 4.0), (signal.SIGKILL, 10.0)):
        try:
            os.killpg(serve.process.pid, sign)
            serve.process.wait(patience)
        except ProcessLookupError:
            break
        except subprocess.TimeoutExpired:
            continue
    # The engine core is a child of its own: what is left of the session goes too.
    with suppress(ProcessLookupError):
        os.killpg(serve.process.pid, signal.SIGKILL)


def _ready(serves: list[Serve]) -> list[Serve]:
    waiting, ready = list(serves), []
    deadline = time.monotonic() + READY_S
    while waiting and time.monotonic() < deadline:
        for serve in list(waiting):
            if serve.process.poll() is not None:
                say(f"{serve.launch.name} died: {serve.tail()}")
                waiting.remove(serve)
            elif _answers(serve):
                serve.ready_s = time.monotonic() - serve.began
                say(f"{serve.launch.name} ready after {serve.ready_s:.0f} s")
                ready.append(serve)
                waiting.remove(serve)
        time.sleep(0.5)
    for serve in waiting:
        say(f"{serve.launch.name} not ready: {serve.tail()}")
        stop(serve)
    return sorted(ready, key=lambda serve: serve.url)


def _answers(serve: Serve) -> bool:
    try:
        with urllib.request.urlopen(f"{serve.url}/health", timeout=2) as reply:
            return bool(reply.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def complete(serve: Serve, words: int = 300, timeout_s: float = 280.0) -> None:
    """One completion of a prompt of its own; kernels compile at the first one."""
    prompt = " ".join(sentences(f"{serve.url}-{words}", words))
    document = {"model": MODEL, "prompt": prompt, "max_tokens": 4, "ignore_eos": True}
    request = urllib.request.Request(
        f"{serve.url}/v1/completions", json.dumps(document).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=timeout_s) as reply:
        reply.read()


def say(text: str) -> None:
    """A line for whoever watches, with the seconds since this process began."""
    print(f"[{time.monotonic() - _BEGAN:6.1f}] {text}", flush=True)


_BEGAN = time.monotonic()
