"""Pytest plugin: tests that need more than Python run when it is there, else are listed as NOT RUN."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass

import pytest


def _module(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def _browser() -> str:
    if not _module("playwright"):
        return "the Python package playwright is not installed"
    if not any(shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome")):
        return "no Chromium on PATH"
    return ""


def _engine() -> str:
    found = _module("vllm") or os.environ.get("K3_REAL")
    return "" if found else "no vLLM here, and $K3_REAL names no folder with vllm-router and clients"


def _cluster() -> str:
    absent = [name for name in ("sshd", "sinfo", "ip") if shutil.which(name, path=_sbin_path()) is None]
    return f"not installed: {', '.join(absent)}" if absent else ""


def _gpu() -> str:
    if shutil.which("nvidia-smi") is None:
        return "no nvidia-smi here: no CUDA GPU"
    named = os.environ.get("K3GPU_SITE") or os.environ.get("K3REPRO_ENGINE_PYTHON")
    return "" if named else "neither $K3GPU_SITE nor $K3REPRO_ENGINE_PYTHON names a vLLM"


def _torch() -> str:
    return "" if _module("torch") else "torch is not installed"


def _nightly() -> str:
    return "" if os.environ.get("K3_NIGHTLY") else "here a sample of the cases is tried, there each"


def _sbin_path() -> str:
    return os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])


@dataclass(frozen=True)
class Kind:
    """One thing that tests may need: how to see whether it is there, and the command that runs them."""

    title: str
    absent: Callable[[], str]
    command: str


KINDS = {
    "browser": Kind("browser", _browser, "apt-get install chromium && K3_REQUIRE=browser make test"),
    "cluster": Kind("cluster (sshd, Slurm)", _cluster, "make test-cluster"),
    "engine": Kind("real engine and router", _engine, "make test-real"),
    "gpu": Kind("real engine on a GPU", _gpu, "see docs/gpu-engine.md, then pytest tests/real_gpu -m gpu"),
    "nightly": Kind("every case", _nightly, "make test-nightly"),
    "torch": Kind("torch", _torch, "pip install torch && make test PYTEST_ARGS='-k torch'"),
}
_PREFIX = "NOT RUN "


def required() -> set[str]:
    """Kinds whose absence is a failure: $K3_REQUIRE, comma-separated."""
    return {name.strip() for name in os.environ.get("K3_REQUIRE", "").split(",") if name.strip()}


def pytest_configure(config: pytest.Config) -> None:
    unknown = required() - set(KINDS)
    if unknown:
        raise pytest.UsageError(f"K3_REQUIRE names {', '.join(sorted(unknown))}; known: {', '.join(KINDS)}")


def pytest_runtest_setup(item: pytest.Item) -> None:
    for name, kind in KINDS.items():
        if item.get_closest_marker(name) is None:
            continue
        reason = kind.absent()
        if reason and name in required():
            pytest.fail(f"K3_REQUIRE={name}, but {reason}; {kind.command}", pytrace=False)
        if reason:
            pytest.skip(f"{_PREFIX}{name}: {reason}")


def rows(skipped: list[str]) -> list[tuple[str, str, str, str]]:
    """Kind, number of tests, reason and command, from the reasons of all skipped tests."""
    table = []
    for name, kind in KINDS.items():
        mine = [reason for reason in skipped if _of_kind(reason, name)]
        absent = kind.absent()
        if mine:
            table.append((kind.title, str(len(mine)), absent or mine[0], kind.command))
        elif absent and name != "torch":
            table.append((kind.title, "0", f"{absent}; no test asks for it yet", "-"))
    others = [reason for reason in skipped if not any(_of_kind(reason, name) for name in KINDS)]
    table += [("other", str(others.count(reason)), reason, "-") for reason in sorted(set(others))]
    return table


def _of_kind(reason: str, name: str) -> bool:
    return f"{_PREFIX}{name}:" in reason or (name == "torch" and "could not import 'torch'" in reason)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if terminalreporter.config.option.collectonly:
        return
    skipped = [str(report.longrepr[2]) for report in terminalreporter.stats.get("skipped", [])]
    table = rows(skipped)
    if not table:
        terminalreporter.write_line("NOT RUN: nothing, every test ran")
        return
    terminalreporter.write_sep("-", "NOT RUN")
    terminalreporter.write_line(f"{'needs':24} {'tests':>5}  why / command")
    for title, count, reason, command in table:
        terminalreporter.write_line(f"{title:24} {count:>5}  {reason.removeprefix('Skipped: ')}")
        if command != "-":
            terminalreporter.write_line(f"{'':24} {'':>5}  $ {command}")
