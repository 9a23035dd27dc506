"""Tear-down: drain, stop in reverse order what the state file started, prove that ports and GPUs are free."""

from __future__ import annotations

import asyncio
import os
import shlex
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from k3repro.bringup._cluster import Cluster, Node
from k3repro.bringup._executors import Executor, job_runs, jobs_named, make_executor, release
from k3repro.bringup._http import get
from k3repro.bringup._node_status import Owner, owners_script, read_owners, stop_script, summary
from k3repro.bringup._plan import ROUTER
from k3repro.bringup._sanitise import hide
from k3repro.bringup._script import tombstone
from k3repro.bringup._slurm import slurm_options
from k3repro.bringup._state import State, StateFile
from k3repro.errors import MachineError
from k3repro.serve import parse_metrics

Say = Callable[[str], None]
LOG_BYTES = 2_000_000
"""What is kept of each log when a serve is taken down."""
# Reverse order of start; both roles of a line stop together.
ORDER = ((ROUTER,), ("decode_master", "prefill_master"), ("decode_worker", "prefill_worker"))


@dataclass(frozen=True, slots=True)
class Down:
    """What a tear-down did: roles it had to kill, what is still there and whose it is."""

    serve: str
    killed: tuple[str, ...]
    foreign: tuple[Owner, ...]
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        foreign = [{"node": item.node, "what": item.what, "owner": item.owner} for item in self.foreign]
        return {"serve": self.serve, "killed": list(self.killed), "foreign": foreign, "seconds": self.seconds}


async def take_down(file: StateFile, state: State, say: Say, *, drain: bool = True) -> Down:
    """Stop everything of a serve; safe to repeat and to interrupt. The caller holds the lock.

    Raises:
        MachineError: a node cannot be reached, or something of this serve is still there.
    """
    begun = time.monotonic()
    cluster = state.parsed_cluster()
    jobs = await _jobs(state)
    killed: list[str] = []
    foreign: list[Owner] = []
    if cluster.scheduler == "slurm" and not jobs:
        _allocation_ended(state, cluster, say)
    else:
        executor = make_executor(cluster, job=jobs[0] if jobs else "", folder=file.folder)
        try:
            if drain and state.phase in {"up", "answering"}:
                await _drain(state, say)
            state.event("stopping", "stopping in reverse order")
            file.save(state)
            lost: dict[str, MachineError] = {}
            for roles in ORDER:
                killed += await _stop(executor, state, roles, say, lost)
            await _collect_logs(executor, file, state, say, set(lost))
            if lost:
                raise _unreachable(state, lost)
            foreign = await _prove(executor, state)
        finally:
            await executor.close()
    if state.own_job:
        for job in jobs:
            await release(job)
            say(f"job {job} given back")
    report = Down(state.serve, tuple(killed), tuple(foreign), round(time.monotonic() - begun, 2))
    state.event("down", "nothing of this serve is left")
    file.finish(state, report.as_dict())
    for line in summary(foreign):
        say(f"left alone: {line}")
    return report


async def _jobs(state: State) -> list[str]:
    """Allocations to stop in. One whose id was not written down in time is found by its name."""
    found = await jobs_named(f"k3repro-{state.serve}") if state.own_job else []
    if not found and state.job and not state.own_job and await job_runs(state.job):
        found = [state.job]
    inside = os.environ.get("SLURM_JOB_ID", "")
    return found or ([inside] if state.job and inside and await job_runs(inside) else [])


def _allocation_ended(state: State, cluster: Cluster, say: Say) -> None:
    """Processes end with their allocation. Containers do not, and without one nothing reaches the nodes.

    Raises:
        MachineError: containers may be left.
    """
    if not cluster.detached or not state.roles:
        say(f"allocation {state.job or 'of this serve'} has ended, and its processes with it")
        return
    hosts = ",".join(node.host for node in cluster.nodes)
    ask = shlex.join(["salloc", *slurm_options(cluster)])
    raise MachineError(
        f"allocation {state.job} has ended; containers of {state.serve} may run on {hosts}",
        where=state.cluster,
        fix=f"Run it inside a new one: {ask} k3repro bringup down --cluster ...",
    )  # fmt: skip


def _unreachable(state: State, lost: Mapping[str, MachineError]) -> MachineError:
    first = next(iter(lost.values()))
    return MachineError(
        f"{' and '.join(lost)} cannot be reached ({first.what}); the other nodes are stopped",
        where=state.cluster, fix="Run `k3repro bringup down` again when it is back: the state is kept.",
    )  # fmt: skip


async def _drain(state: State, say: Say) -> None:
    """Let requests in flight end: a wave that is cut can leave the fabric wedged."""
    end = time.monotonic() + state.drain_s
    urls = state.facts.get("metrics_urls", [])
    while urls and time.monotonic() < end:
        running = 0.0
        for url in urls:
            status, body = await get(url, timeout_s=3)
            metrics = parse_metrics(body) if status == 200 else None
            names = ("vllm:num_requests_running", "vllm:num_requests_waiting")
            running += sum(metrics.total(name) or 0 for name in names) if metrics else 0
        if not running:
            return
        say(f"draining: {running:g} requests in flight")
        await asyncio.sleep(1)


async def _collect_logs(executor: Executor, file: StateFile, state: State, say: Say, lost: set[str]) -> None:
    """The end of every role's log, without secrets, into the folder of this serve: nodes may go."""
    cluster, folder = state.parsed_cluster(), file.folder / "logs" / state.serve

    async def fetch(role: str, log: str) -> int:
        node = cluster.node("prefill_master" if role == ROUTER else role)
        if node.host in lost:
            return 0
        try:
            result = await executor.run(node, f"tail -c {LOG_BYTES} -- {shlex.quote(log)}\n", timeout_s=60)
        except MachineError:
            return 0
        if not result.out:
            return 0
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{role}.log").write_text(hide(result.out), encoding="utf-8")
        return 1

    kept = sum(await asyncio.gather(*(fetch(role, str(entry["log"])) for role, entry in state.roles.items())))
    if kept:
        say(f"logs: the end of {kept} in {folder}")


async def _stop(
    executor: Executor, state: State, roles: tuple[str, ...], say: Say, lost: dict[str, MachineError]
) -> list[str]:
    """Stop roles on their nodes, and leave the stone everywhere first: a late launch must find it.

    A node that cannot be reached is added to `lost` and not tried again; the others are stopped all the same.
    """
    cluster = state.parsed_cluster()
    places: dict[str, tuple[Node, list[str]]] = {}
    for role in roles:
        node = cluster.node("prefill_master" if role == ROUTER else role)
        places.setdefault(node.host, (node, []))[1].append(role)
    stone, killed = tombstone(cluster, state.serve), []
    for node, here in places.values():
        if node.host not in lost:
            killed.append((node, here, stop_script(cluster, state.serve, here, state.grace_s, stone)))
    results = await asyncio.gather(
        *(executor.run(node, script, timeout_s=state.grace_s + 60) for node, _, script in killed),
        return_exceptions=True,
    )
    hard, stopped = [], []
    for (node, here, _), result in zip(killed, results, strict=True):
        if isinstance(result, MachineError):
            lost[node.host] = result
            say(f"{node.host} cannot be reached: {result.what}")
            continue
        if isinstance(result, BaseException):
            raise result
        stopped += here
        words = result.out.split()
        if "left" not in words or words[-1] != "0":
            raise MachineError(
                f"{' and '.join(here)} could not be stopped: {(result.err or result.out).strip()[-200:]}",
                where=node.host, fix="Run `k3repro bringup down` again; a process in D state needs a reboot.",
            )  # fmt: skip
        if words[1] != "0" and any(role in state.roles for role in here):
            hard += here
    if stopped:
        say(
            f"stopped {' and '.join(stopped)}" + (f" ({' and '.join(hard)} had to be killed)" if hard else "")
        )
    return hard


async def _prove(executor: Executor, state: State) -> list[Owner]:
    """Look at every node once more: nothing of this serve may be left; the rest is reported, not touched."""
    cluster = state.parsed_cluster()

    async def look(node: Node) -> list[Owner]:
        result = await executor.run(node, owners_script(cluster, state.ports))
        return read_owners(node, result.out)

    found = [owner for owners in await asyncio.gather(*map(look, cluster.nodes)) for owner in owners]
    mine = f"{state.serve}:"
    ours = [
        owner for owner in found if owner.what.startswith(f"serve {mine}") or owner.owner.startswith(mine)
    ]
    if ours:
        raise MachineError(f"still there: {ours[0].what} on {ours[0].node}", fix="Run it again.")
    return sorted(set(found), key=lambda owner: (owner.node, owner.what))


async def tear_down(name: str, say: Say, *, drain: bool = True) -> Down | None:
    """`take_down` of a cluster's serve under the lock; None when nothing was started."""
    file = StateFile(name)
    with file.locked():
        state = file.load()
        return None if state is None else await take_down(file, state, say, drain=drain)
