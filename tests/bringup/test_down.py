"""Tear-down when a node or an allocation is gone, and `up` on a serve that has lost a role."""

from __future__ import annotations

import asyncio
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from k3repro.bringup import Local, State, StateFile, cluster_text_of, load_recipe, make_plan, parse_cluster
from k3repro.bringup import _down as down
from k3repro.bringup import _up as up
from k3repro.bringup._cluster import Node
from k3repro.bringup._executors import Result
from k3repro.errors import MachineError


def text_of(tmp_path: Path, scheduler: str = "local", runtime: str = "process") -> str:
    text = cluster_text_of("mi325x-thor2").replace('"/var/tmp/k3disagg/logs"', f'"{tmp_path}/logs"')
    return text.replace('"ssh"', f'"{scheduler}"').replace('"docker"', f'"{runtime}"')


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StateFile:
    monkeypatch.setenv("K3REPRO_STATE", str(tmp_path / "state"))
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    return StateFile("mi325x-thor2")


def state_of(text: str, **more: object) -> State:
    state = State(f"up-{secrets.token_hex(4)}", "mi325x-thor2", text, "digest", "workers", "http://127.0.0.1:1",
                  [], 0.4, 0.0)  # fmt: skip
    for name in ("prefill_worker", "decode_worker", "prefill_master", "decode_master"):
        state.roles[name] = {"host": name[0] + name.partition("_")[2][0], "log": "/nowhere"}
    return replace(state, **more)  # type: ignore[arg-type]


@pytest.fixture
def worker() -> Iterator[subprocess.Popen[bytes]]:
    """Says its mark's serve name, given by the test through the environment."""
    serve = f"up-{secrets.token_hex(4)}"
    code = f"import time; print({serve!r}, flush=True); time.sleep(600)"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True,
                               env={**os.environ, "K3REPRO_LAUNCH": f"{serve}:decode_worker"})  # fmt: skip
    yield process
    process.kill()
    process.communicate()


class OneNodeGone(Local):
    """This machine plays all nodes but one, which nothing reaches."""

    def __init__(self, gone: str) -> None:
        self.gone, self.asked = gone, list[str]()

    async def run(self, node: Node, script: str, *, timeout_s: float = 60.0) -> Result:
        self.asked.append(node.host)
        if node.host == self.gone:
            raise MachineError("ssh failed: no route", where=node.host)
        return await super().run(node, script, timeout_s=timeout_s)


@pytest.mark.parametrize("gone", ["pm", "dm", "pw"])
def test_a_node_that_is_gone_keeps_no_other_from_being_stopped(
    gone: str,
    file: StateFile,
    tmp_path: Path,
    worker: subprocess.Popen[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert worker.stdout is not None
    state = state_of(text_of(tmp_path), serve=worker.stdout.readline().decode().strip())
    file.save(state)
    executor, said = OneNodeGone(gone), list[str]()
    monkeypatch.setattr(down, "make_executor", lambda *_, **__: executor)
    with pytest.raises(MachineError, match=rf"{gone} cannot be reached .*; the other nodes are stopped"):
        asyncio.run(down.tear_down("mi325x-thor2", said.append))
    assert worker.wait(600) and executor.asked.count(gone) == 1
    assert file.load() is not None  # for the next `down`
    executor.gone = ""
    report = asyncio.run(down.tear_down("mi325x-thor2", said.append))
    assert report is not None and file.load() is None


def slurm(monkeypatch: pytest.MonkeyPatch, running: set[str]) -> None:
    async def runs(job: str) -> bool:
        return job in running

    async def named(_: str) -> list[str]:
        return []

    monkeypatch.setattr(down, "job_runs", runs)
    monkeypatch.setattr(down, "jobs_named", named)


@pytest.mark.parametrize("own", [True, False])
def test_processes_of_an_allocation_that_ended_are_gone_with_it(
    own: bool, file: StateFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm(monkeypatch, set())
    file.save(state_of(text_of(tmp_path, "slurm"), job="7", own_job=own))
    said = list[str]()
    report = asyncio.run(down.tear_down("mi325x-thor2", said.append))
    assert report is not None and file.load() is None
    assert any("allocation 7 has ended" in line for line in said)


@pytest.mark.parametrize("own", [True, False])
def test_containers_of_an_allocation_that_ended_are_stopped_from_another(
    own: bool, file: StateFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm(monkeypatch, {"8"})
    file.save(state_of(text_of(tmp_path, "slurm", "docker"), job="7", own_job=own))
    with pytest.raises(MachineError, match="may run on") as caught:
        asyncio.run(down.tear_down("mi325x-thor2", print))
    asked = (
        "salloc --nodes=4 --exclusive --mem=0 --gres=gpu:8 --nodelist="  # as `up` asked: a site may insist
    )
    assert asked in str(caught.value) and file.load() is not None
    monkeypatch.setenv("SLURM_JOB_ID", "8")
    assert asyncio.run(down._jobs(file.load() or state_of(""))) == ["8"]


def test_a_serve_that_lost_a_role_is_not_called_up(file: StateFile, tmp_path: Path) -> None:
    cluster = parse_cluster(text_of(tmp_path), "c.toml")
    plan = make_plan(load_recipe(cluster.recipe), cluster)
    state = state_of(text_of(tmp_path), phase="answering", digest=plan.digest)
    why = asyncio.run(up._unfit(state, plan))
    assert why.startswith("has lost ") and "decode_worker" in why
    assert asyncio.run(up._unfit(replace(state, phase="masters"), plan)) == "was left in phase masters"
    assert asyncio.run(up._unfit(replace(state, digest="x"), plan)) == "is of another plan"
