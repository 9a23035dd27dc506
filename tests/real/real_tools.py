"""Real software around the twin: where it is, a router in front of engines, NOT RUN when it is absent."""

from __future__ import annotations

import itertools
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from engine_roles import Engine, role_arguments, transfer_config

_NETS = itertools.count(20)


def tool(name: str) -> str:
    """The executable `name` in the folders of $K3_REAL or on PATH; the test is NOT RUN without it."""
    found = shutil.which(name, path=os.environ.get("K3_REAL", "")) or shutil.which(name)
    if found is None:
        pytest.skip(f"NOT RUN engine: {name} is neither in the folders of $K3_REAL nor on PATH")
    return found


def free_port() -> int:
    """A TCP port of 127.0.0.1 that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Serve:
    """Engines of both pools and a real router. `nodes` per pool; `missing` drops the list of peer hosts."""

    def __init__(
        self, folder: Path, *, nodes: int, dp: int, scale: int = 20, missing: bool = False,
        read: bool = False, without_config: str = "", **environment: str,
    ) -> None:  # fmt: skip
        self.folder, self.router = folder, tool("vllm-router")
        net = next(_NETS)
        self.port, self.ping_port, self.metrics_port = free_port(), free_port(), free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.engines: dict[str, Engine] = {}
        self.process: subprocess.Popen[bytes] | None = None
        hosts = {
            "prefill": [f"127.0.{net}.{n + 1}" for n in range(nodes)],
            "decode": [f"127.0.{net}.{n + 101}" for n in range(nodes)],
        }
        self._start: dict[str, Any] = {}
        for pool, peer in (("prefill", "decode"), ("decode", "prefill")):
            extra = {"read_mode": "true"} if read else {}
            config = transfer_config(pool, [] if missing else hosts[peer], self.ping_port, **extra)
            for kind, host in zip(("master", "worker"), hosts[pool], strict=False):
                name = f"{pool}_{kind}"
                mine = None if name == without_config else config
                arguments = role_arguments(pool, kind, hosts[pool][0], mine, dp=dp, nodes=nodes)
                self._start[name] = (host, arguments)
        self._environment = {"K3REPRO_TWIN_TIME_SCALE": str(scale), "K3REPRO_TWIN_PING_S": "1", **environment}

    def up(self, **special: dict[str, str]) -> None:
        """Workers, masters, router, as the recipe orders; `special` is more environment for one role."""
        for name in sorted(self._start, key=lambda name: name.endswith("master")):
            self.start(name, **special.get(name, {}))
        for name, engine in self.engines.items():
            if name.endswith("master"):
                engine.until("Application startup complete.")
        self.start_router()

    def start(self, name: str, **environment: str) -> None:
        """Start one engine."""
        host, arguments = self._start[name]
        log = self.folder / f"{name}-{time.monotonic_ns()}.log"
        self.engines[name] = Engine(log, host, arguments, **self._environment, **environment)

    def start_router(self) -> None:
        """Start the router and wait until both pools have pinged it."""
        with (self.folder / "router.log").open("ab") as out:
            self.process = subprocess.Popen(
                [
                    self.router, "--host", "127.0.0.1", "--port", str(self.port), "--vllm-pd-disaggregation",
                    "--kv-connector", "moriio", "--vllm-discovery-address", f"127.0.0.1:{self.ping_port}",
                    "--policy", "round_robin", "--prometheus-port", str(self.metrics_port),
                ],
                stdout=out, stderr=subprocess.STDOUT,
            )  # fmt: skip
        self.until_health(200)

    def stop_router(self) -> None:
        """Kill the router."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(20)

    def health(self) -> int:
        """Status of the router's /health; 0 when it does not answer."""
        try:
            with urllib.request.urlopen(f"{self.url}/health", timeout=5) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0

    def until_health(self, status: int, seconds: float = 40) -> None:
        """Wait for a status of /health."""
        end = time.monotonic() + seconds
        while self.health() != status:
            assert time.monotonic() < end, f"/health never became {status}\n{self.router_log[-2000:]}"
            time.sleep(0.1)

    @property
    def router_log(self) -> str:
        """What the router printed."""
        return (self.folder / "router.log").read_text(errors="replace")

    def router_metrics(self) -> str:
        """Text of the router's own metrics page."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=10) as answer:
            return str(answer.read().decode())

    def metrics(self, name: str) -> str:
        """Text of an engine's /metrics."""
        host, _ = self._start[name]
        with urllib.request.urlopen(f"http://{host}:20005/metrics", timeout=10) as answer:
            return str(answer.read().decode())

    def down(self) -> None:
        """End everything."""
        if self.process is not None and self.process.poll() is None:
            self.stop_router()
        for engine in self.engines.values():
            engine.end()
