"""Four hosts on this machine for the tests of this folder; brought up once, taken down at the end."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster_hosts import MEASURED, SCRIPT, Hosts


def _router() -> str:
    places = [os.environ.get("K3_ROUTER", ""), str(Path(sys.prefix) / "router" / "bin" / "vllm-router")]
    return next((place for place in places if place and Path(place).is_file()), "")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.environ.get("K3_CLUSTER"):
        return
    skip = pytest.mark.skip(reason="NOT RUN cluster: `make test-cluster` builds four hosts and runs these")
    for item in items:
        if item.get_closest_marker("cluster"):
            item.add_marker(skip)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What was measured, in one table: never asserted, a loaded machine is no defect."""
    if not MEASURED:
        return
    terminalreporter.section("MEASURED")
    for what, value in MEASURED:
        terminalreporter.write_line(f"{what:56} {value}")


@pytest.fixture(scope="session")
def hosts() -> Iterator[Hosts]:
    """sshd on four hosts and Slurm over them."""
    router = _router()
    if not router:
        pytest.fail("no vllm-router: `make test-cluster` installs it, or set K3_ROUTER")
    # A run that was killed leaves its hosts; its folder knows their processes.
    for old in Path(tempfile.gettempdir()).glob("k3hosts-*"):
        subprocess.run([SCRIPT, "down", old], capture_output=True)
        shutil.rmtree(old, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="k3hosts-") as name:
        folder = Path(name)
        try:
            for step in ("up", "slurm"):
                done = subprocess.run([SCRIPT, step, folder], capture_output=True, text=True)
                assert done.returncode == 0, f"{step}: {done.stdout}{done.stderr}"
            yield Hosts(folder, router)
        finally:
            subprocess.run([SCRIPT, "down", folder], capture_output=True)


@pytest.fixture
def clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hosts: Hosts) -> Iterator[Path]:
    """A folder of one test, with state and artifacts of its own; what a failed test left is taken down."""
    (tmp_path / "artifacts").mkdir()
    monkeypatch.setenv("K3REPRO_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("K3REPRO_ARTIFACTS", str(tmp_path / "artifacts"))
    monkeypatch.setenv("SLURM_CONF", str(hosts.folder / "slurm.conf"))
    yield tmp_path
    for file in tmp_path.glob("*.toml"):
        if list(tmp_path.glob("state/*/state.json")):
            argv = [hosts.k3repro, "bringup", "down", "--cluster", file, "--no-drain"]
            subprocess.run(argv, capture_output=True, timeout=120)
