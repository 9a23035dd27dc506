"""The four command lines of the recipe on loopback addresses, and engines in processes of their own."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_PROGRAM = "import sys; from k3repro.cli import main; main(sys.argv[1:])"
COMMON = shlex.split(
    "--served-model-name kimi-k3 --tensor-parallel-size 2 --data-parallel-rpc-port 13345 "
    "--enable-expert-parallel --trust-remote-code --reasoning-parser kimi_k3 --mm-encoder-tp-mode data "
    "--safetensors-load-strategy prefetch --no-enable-prefix-caching --kv-cache-dtype fp8 --block-size 16 "
    "--kv-cache-memory-bytes 13000000000 --max-model-len 900000 --max-num-seqs 8 "
    "--max-num-batched-tokens 2048 --gpu-memory-utilization 0.85 --distributed-timeout-seconds 7200"
)
BACKENDS = {"prefill": "mori_high_throughput", "decode": "mori_low_latency"}
GRAPHS = {"prefill": "NONE", "decode": "PIECEWISE"}


def transfer_config(pool: str, peers: Sequence[str], ping_port: int = 0, **extra: Any) -> str:
    """`--kv-transfer-config` as the recipe writes it: values are strings."""
    known: dict[str, Any] = {
        "proxy_ip": "127.0.0.1" if ping_port else "", "proxy_port": "30000",
        "proxy_ping_port": str(ping_port), "http_port": "20005", "local_ping_port": "61555",
        "handshake_port": "8405", "notify_port": "61005", "moriio_pod_hosts": ",".join(peers),
        "post_batch_size": -1, "qp_per_transfer": 1, "num_workers": 1,
    }  # fmt: skip
    known = {key: value for key, value in {**known, **extra}.items() if value != ""}
    role = "kv_producer" if pool == "prefill" else "kv_consumer"
    return json.dumps(
        {
            "kv_connector": "MoRIIOConnector",
            "kv_role": role,
            "kv_port": "9711",
            "kv_connector_extra_config": known,
        }
    )


def role_arguments(
    pool: str, kind: str, master: str, config: str | None, *, dp: int = 8, nodes: int = 2
) -> list[str]:
    """`serve ...` of one role: pool prefill or decode, kind master or worker."""
    graph = json.dumps({"cudagraph_mode": GRAPHS[pool], "custom_ops": ["+quant_fp8"]})
    arguments = [
        "serve", "/model", *COMMON, "--data-parallel-size", str(dp), "--data-parallel-size-local",
        str(dp // nodes), "--data-parallel-address", master, "--all2all-backend", BACKENDS[pool],
        "--compilation-config", graph,
    ]  # fmt: skip
    if kind == "worker":
        arguments += ["--data-parallel-start-rank", str(dp // nodes), "--headless"]
    else:
        arguments += ["--api-server-count", str(dp), "--port", "20005"]
    return arguments + (["--kv-transfer-config", config] if config is not None else [])


class Engine:
    """One `k3repro twin engine` process; its log is a file."""

    def __init__(self, log: Path, host: str, arguments: Sequence[str], **environment: str) -> None:
        self.log = log
        variables: Mapping[str, str] = {
            **os.environ, "VLLM_HOST_IP": host, "K3REPRO_TWIN_PLATFORM": "mi300x", **environment,
        }  # fmt: skip
        with log.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, "twin", "engine", *arguments],
                stdout=out, stderr=subprocess.STDOUT, env=variables,
            )  # fmt: skip

    @property
    def text(self) -> str:
        """What it printed so far."""
        return self.log.read_text()

    def until(self, words: str, seconds: float = 600) -> None:
        """Wait for words in the log."""
        end = time.monotonic() + seconds
        while words not in self.text:
            assert time.monotonic() < end, f"{words!r} did not come in {self.log.name}:\n{self.text[-3000:]}"
            assert self.process.poll() is None or words in self.text, f"ended:\n{self.text[-3000:]}"
            time.sleep(0.05)

    def send(self, number: int) -> None:
        """Send a signal."""
        self.process.send_signal(number)

    def end(self) -> int:
        """Stop it if it still runs; its exit code."""
        if self.process.poll() is None:
            self.send(signal.SIGKILL)
        return self.process.wait(600)
