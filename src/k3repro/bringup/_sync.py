"""The same steps for a notebook, whose own event loop is already running."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, TypeVar

from k3repro.bringup._cluster import ROLES, Node
from k3repro.bringup._doctor import Doctor, examine
from k3repro.bringup._down import Down, tear_down
from k3repro.bringup._executors import hosts_of, make_executor
from k3repro.bringup._plan import Plan, make_plan
from k3repro.bringup._state import State, StateFile
from k3repro.bringup._up import bring_up
from k3repro.bringup._watcher import Look, Watcher
from k3repro.errors import MachineError

T = TypeVar("T")


def _wait(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run in a thread with a loop of its own. Ctrl-C is raised here once the step in hand has ended."""
    box: dict[str, Any] = {}
    stop: dict[str, Any] = {}

    async def main() -> None:
        stop["loop"], stop["task"] = asyncio.get_running_loop(), asyncio.current_task()
        box["value"] = await work()

    def body() -> None:
        try:
            asyncio.run(main())
        except BaseException as error:
            box["error"] = error

    thread = threading.Thread(target=body, name="bring-up")
    thread.start()
    try:
        while thread.is_alive():
            thread.join(0.2)
    except KeyboardInterrupt:
        if "task" in stop:
            stop["loop"].call_soon_threadsafe(stop["task"].cancel)
        thread.join()
        raise
    if "error" in box:
        raise box["error"]
    result: T = box["value"]
    return result


def start(plan: Plan, cluster_text: str, say: Callable[[str], None] = print) -> State:
    """`bring_up`, synchronous."""
    return _wait(lambda: bring_up(plan, cluster_text, say))


def stop(name: str, say: Callable[[str], None] = print, *, drain: bool = True) -> Down | None:
    """`tear_down`, synchronous."""
    return _wait(lambda: tear_down(name, say, drain=drain))


def doctor(plan: Plan) -> Doctor:
    """`examine` with the cluster's own executor, synchronous."""

    async def look() -> Doctor:
        folder = StateFile(plan.cluster.name).folder
        folder.mkdir(parents=True, exist_ok=True)
        executor = make_executor(plan.cluster, folder=folder)
        try:
            return await examine(await _named(plan), executor)
        finally:
            await executor.close()

    return _wait(look)


async def _named(plan: Plan) -> Plan:
    """The plan with the nodes of the allocation, where the cluster file only counts them."""
    cluster = plan.cluster
    if not cluster.unnamed:
        return plan
    hosts = await hosts_of(cluster.job or os.environ.get("SLURM_JOB_ID", ""), cluster.interface)
    if len(hosts) != len(ROLES):
        raise MachineError(f"{len(hosts)} nodes for {len(ROLES)} roles", fix="Allocate exactly four.")
    nodes = tuple(Node(role, *host) for role, host in zip(ROLES, hosts, strict=True))
    return make_plan(plan.recipe, replace(cluster, nodes=nodes, overrides={}))


def watch_once(state: State, *, answer_s: float = 60.0) -> Look:
    """One look of a `Watcher`, synchronous."""

    async def look() -> Look:
        watcher = Watcher(state, answer_s=answer_s)
        try:
            return await watcher.look()
        finally:
            await watcher.close()

    return _wait(look)


def diagram(plan: Plan) -> str:
    """The plan as a text figure: clients, router, the four roles, what flows between them."""
    names = {launch.role: f"{launch.node.host} {launch.node.address}" for launch in plan.launches}
    tp, dp = plan.recipe.layout.tp, plan.recipe.layout.dp
    prefill, decode = (
        plan.launch(f"{pool}_master").flag("--all2all-backend") for pool in ("prefill", "decode")
    )
    local = plan.recipe.platform.gpus_per_node // tp
    rows = [
        f"clients --> router {plan.router.url} (on {plan.router.node.host})",
        f"              |-- prompts --> prefill pool, TP{tp} x DP{dp}, {prefill}",
        f"              |                 3. master {names['prefill_master']}, DP ranks 0 to {local - 1}",
        f"              |                 1. worker {names['prefill_worker']}, DP ranks {local} to {dp - 1}",
        "              |                      |  MoRIIO: KV and state, written once, read back",
        f"              '-- answers --> decode pool, TP{tp} x DP{dp}, {decode}",
        f"                                4. master {names['decode_master']}, DP ranks 0 to {local - 1}",
        f"                                2. worker {names['decode_worker']}, DP ranks {local} to {dp - 1}",
    ]  # fmt: skip
    return "\n".join(rows)
