"""Starts real vLLM on CPU: one engine, or a prefill/decode pair behind vllm-router; stops what it started.

`$K3REPRO_ENGINE_PYTHON` names the Python of an environment made from requirements/engine.txt
(`make test-engine`). Everything listens on 127.0.0.1. An engine is ready when it has answered a completion:
a health check alone is no proof, some configurations die at their first request.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from k3repro.probes.needles import needles
from k3repro.probes.prompts import sentences

HERE = Path(__file__).parent
VARIABLE = "K3REPRO_ENGINE_PYTHON"
POOL_GIB = 1
READY_S = 420.0
_ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "OMP_NUM_THREADS": "1",
    "VLLM_CPU_KVCACHE_SPACE": str(POOL_GIB), "VLLM_CPU_OMP_THREADS_BIND": "nobind",
}  # fmt: skip
_NIXL = {"UCX_TLS": "tcp,shm,self,cma", "VLLM_NIXL_SIDE_CHANNEL_HOST": "127.0.0.1"}
# What of a start-up log is kept: lines with facts, without paths, process ids and dates.
_FACTS = re.compile(
    r"(?:\w+ KV cache size: .*|Maximum concurrency for .*|Setting attention block size to .*"
    r"|Padding mamba page size by .*"
    r"|Setting SSM conv state layout to .*|Hybrid SSM registration: .*|Reset SSM cache type to .*"
    r"|Using \w+ SSM state storage .*"
    r"|MLA is enabled on a non-GPU platform.*|Using \w+ (?:attention )?backend.*)"
)


def engine_python() -> Path | None:
    """The engine environment's Python, or None when nobody named one that exists."""
    named = os.environ.get(VARIABLE, "")
    path = Path(named).expanduser()
    return path.absolute() if named and path.exists() else None


@dataclass(frozen=True, slots=True)
class Model:
    """A model to serve, and what the block law must know of its launch."""

    name: str
    max_model_len: int = 4096
    block_size: int | None = 128
    kernel_block: int | None = None
    flags: tuple[str, ...] = ()


# The CPU platform takes blocks of 128 tokens when nobody asks for others; its MLA kernel forces 16.
MODELS = {
    model.name: model
    for model in (
        Model("qwen3"),
        Model("deepseek-v3", block_size=16, kernel_block=16),
        Model("qwen3-next"),
        Model("smollm2-135m"),
    )
}


def free_port() -> int:
    """A free TCP port: over one that is taken an engine hangs, and only its log says so."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass(slots=True)
class Serve:
    """A running server: where it is, how it was started, where its log lies."""

    model: Model
    url: str
    command: list[str]
    log: Path
    process: subprocess.Popen[bytes]
    others: dict[str, str] = field(default_factory=dict)

    def startup_lines(self) -> list[str]:
        """The facts of its start-up log, each once, in order."""
        text = self.log.read_text(encoding="utf-8", errors="replace")
        found = [match[0].strip() for line in text.splitlines() if (match := _FACTS.search(line))]
        return list(dict.fromkeys(found))

    def flags(self) -> list[str]:
        """The launch flags, without Python, module, paths, host and port."""
        shown = [part for part in self.command if not part.startswith("/")]
        shown = shown[shown.index("--served-model-name") :] if "--served-model-name" in shown else shown
        where = shown.index("--host")
        return shown[:where] + shown[where + 4 :]


def build(names: Sequence[str], scratch: Path) -> Path:
    """Make the models in `scratch` with the engine's Python; those that are there are kept."""
    corpus = scratch / "corpus.txt"
    hidden = needles("tokenizer", 50)
    text = sentences("tokenizer", 20_000) + [n.sentence for n in hidden] + [n.question for n in hidden]
    scratch.mkdir(parents=True, exist_ok=True)
    corpus.write_text("\n".join(text), encoding="utf-8")
    python = engine_python()
    if python is None:
        raise RuntimeError(f"{VARIABLE} names no Python with vLLM; `make test-engine` makes one")
    command = [str(python), str(HERE / "build_models.py"), str(scratch / "models"), str(corpus), *names]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return scratch / "models"


@contextmanager
def engine(model: Model, scratch: Path, *, role: str = "") -> Iterator[Serve]:
    """One engine; `role` kv_producer or kv_consumer joins it to a pair over NIXL."""
    port = free_port()
    folder = build([model.name], scratch) / model.name
    command = [
        str(engine_python()), "-m", "vllm.entrypoints.openai.api_server", "--model", str(folder),
        "--served-model-name", f"tiny-{model.name}", "--dtype", "bfloat16", "--enforce-eager", "--seed", "0",
        "--max-model-len", str(model.max_model_len), "--no-enable-prefix-caching", *model.flags,
        "--host", "127.0.0.1", "--port", str(port),
    ]  # fmt: skip
    environment = {**os.environ, **_ENVIRONMENT}
    if role:
        transfer = {"kv_connector": "NixlConnector", "kv_role": role, "kv_buffer_device": "cpu"}
        command += ["--kv-transfer-config", json.dumps(transfer)]
        environment |= {**_NIXL, "VLLM_NIXL_SIDE_CHANNEL_PORT": str(free_port())}
    log = scratch / f"{model.name}{role and f'-{role}'}.log"
    with _started(command, environment, log) as process:
        yield Serve(model, f"http://127.0.0.1:{port}", command, log, process)


@contextmanager
def served(model: Model, scratch: Path) -> Iterator[Serve]:
    """One engine that has answered a completion."""
    with engine(model, scratch) as serve:
        wait(serve, READY_S)
        yield serve


@contextmanager
def pair(model: Model, scratch: Path) -> Iterator[tuple[Serve, Serve, Serve]]:
    """Prefill, decode, and the real vllm-router in front of them, which has answered a completion."""
    with ExitStack() as stack:
        prefill, decode = (
            stack.enter_context(engine(model, scratch, role=role)) for role in ("kv_producer", "kv_consumer")
        )
        for serve in (prefill, decode):
            wait(serve, READY_S, completion=False)
        router = stack.enter_context(_router(prefill, decode, scratch))
        wait(router, READY_S)
        yield prefill, decode, router


@contextmanager
def _router(prefill: Serve, decode: Serve, scratch: Path) -> Iterator[Serve]:
    program, port = Path(str(engine_python())).parent / "vllm-router", free_port()
    command = [
        str(program), "--host", "127.0.0.1", "--port", str(port), "--vllm-pd-disaggregation",
        "--prefill", prefill.url, "--decode", decode.url, "--policy", "round_robin",
        "--health-check-interval-secs", "5", "--prometheus-port", str(free_port()),
    ]  # fmt: skip
    log = scratch / "router.log"
    with _started(command, dict(os.environ), log) as process:
        yield Serve(prefill.model, f"http://127.0.0.1:{port}", command, log, process)


@contextmanager
def _started(
    command: Sequence[str], environment: dict[str, str], log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as sink:
        process = subprocess.Popen(
            command,
            stdout=sink,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
            cwd=log.parent,
        )
    try:
        yield process
    finally:
        _stop(process)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End the process and the children of its own session, and nothing else."""
    for sign, patience in ((signal.SIGTERM, 20.0), (signal.SIGKILL, 20.0)):
        try:
            os.killpg(process.pid, sign)
        except ProcessLookupError:
            break
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            continue
    process.wait(20.0)


def wait(serve: Serve, timeout_s: float, *, completion: bool = True) -> None:
    """Until it answers; RuntimeError with the end of its log when it dies or takes too long."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if serve.process.poll() is not None:
            raise RuntimeError(f"{serve.url} died: {_tail(serve.log)}")
        if _answers(serve, completion):
            return
        time.sleep(1.0)
    raise RuntimeError(f"{serve.url} was not ready within {timeout_s:.0f} s: {_tail(serve.log)}")


def _answers(serve: Serve, completion: bool) -> bool:
    try:
        with urllib.request.urlopen(f"{serve.url}/health", timeout=5) as reply:
            healthy = reply.status == 200
        if not (healthy and completion):
            return healthy
        document: dict[str, Any] = {
            "model": f"tiny-{serve.model.name}",
            "prompt": "The old lantern",
            "max_tokens": 2,
        }
        request = urllib.request.Request(
            f"{serve.url}/v1/completions", json.dumps(document).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=90) as reply:
            return bool(reply.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _tail(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")[-600:]
