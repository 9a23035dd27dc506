"""Bring-up: neighbours, workers, masters, models, router, registration, one token, canary 1 then 4."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from pathlib import Path

from k3repro.bringup._cluster import Cluster, Node, parse_cluster, with_hosts
from k3repro.bringup._down import take_down
from k3repro.bringup._executors import Executor, Result, allocate, hosts_of, make_executor
from k3repro.bringup._facts import logs_script, metrics_urls, read_facts, split_logs
from k3repro.bringup._http import canary, complete, get
from k3repro.bringup._node_status import (
    RoleStatus,
    fatal_name,
    owners_script,
    read_owners,
    read_status,
    registered,
    status_script,
    summary,
)
from k3repro.bringup._plan import ROUTER, Launch, Plan, make_plan, url_host
from k3repro.bringup._router import router_flags_of
from k3repro.bringup._sanitise import hide
from k3repro.bringup._script import launch_script, mark_of, router_help_script, router_script
from k3repro.bringup._state import State, StateFile
from k3repro.errors import FindingError, MachineError

Say = Callable[[str], None]


def ports_of(plan: Plan, node: Node) -> list[int]:
    """Ports a node needs free: listeners of TP x DP ranks included, of the router on the prefill master."""
    port = {name: int(knob.value) for name, knob in plan.recipe.sections["ports"].items()}
    ranks = plan.recipe.layout.tp * plan.recipe.layout.dp
    found = [base + rank for base in (port["handshake"], port["notify"]) for rank in range(ranks)]
    if node.master:
        found += [port["http"], port["dp_rpc"]]
    if node.role == "prefill_master":
        found += [port["ping"], port["router"], port["router_metrics"]]
    return sorted(found)


class BringUp:
    """One run of `up`. Every step is written to the state file before it is done."""

    def __init__(self, plan: Plan, file: StateFile, cluster_text: str, say: Say) -> None:
        self.plan, self.file, self.say = plan, file, say
        every = sorted({port for node in plan.cluster.nodes for port in ports_of(plan, node)})
        self.state = State(
            f"up-{secrets.token_hex(4)}", plan.cluster.name, cluster_text, plan.digest, "new",
            plan.router.url, every, plan.timing("grace_s"), plan.timing("drain_s"),
        )  # fmt: skip
        self.executor: Executor

    def note(self, phase: str, what: str, **more: object) -> None:
        """Write an event down and say it."""
        self.state.event(phase, what, **more)
        self.file.save(self.state)
        self.say(f"{phase}: {what}")

    async def run(self) -> State:
        """All steps, in order.

        Raises:
            MachineError: a node, port or program failed.
            FindingError: an engine died, or the serve answers wrongly.
        """
        await self._open()
        try:
            await self._probe_router()
            await self._neighbours()
            await self._start(self.plan.launches[:2], "workers")
            await self._alive()
            await self._start(self.plan.launches[2:], "masters")
            await self._models()
            await self._router()
            await self._answers()
            await self._facts()
            self.note("answering", f"{self.state.url} answers")
        finally:
            await self.executor.close()
        return self.state

    async def _open(self) -> None:
        cluster = self.plan.cluster
        self.note("begin", f"serve {self.state.serve}, plan {self.plan.digest}")
        if cluster.scheduler == "slurm" and not cluster.job and not _inside_slurm():
            self.state.own_job = True
            self.note("allocate", "asking Slurm for four nodes")
            gpus = self.plan.recipe.platform.gpus_per_node
            self.state.job = await allocate(cluster, f"k3repro-{self.state.serve}", gpus=gpus)
            self.note("allocate", f"job {self.state.job}")
        elif cluster.scheduler == "slurm":
            self.state.job = cluster.job or _inside_slurm()
        if cluster.unnamed:
            cluster = await self._name_nodes()
        self.executor = make_executor(cluster, job=self.state.job, folder=self.file.folder)

    async def _name_nodes(self) -> Cluster:
        """The cluster with the nodes that Slurm gave, and the plan for them."""
        text = with_hosts(
            self.state.cluster_text, await hosts_of(self.state.job, self.plan.cluster.interface)
        )
        cluster = parse_cluster(text, self.plan.cluster.where)
        self.plan = make_plan(self.plan.recipe, replace(cluster, overrides={}))
        self.state.cluster_text, self.state.url = text, self.plan.router.url  # digest: of what was asked
        self.note("allocate", f"nodes {', '.join(node.host for node in cluster.nodes)}")
        return self.plan.cluster

    async def _probe_router(self) -> None:
        """Ask the router itself what it can do, and plan again for it.

        Raises:
            MachineError: it cannot be asked, or lacks a flag nothing can stand in for.
        """
        cluster, node = self.plan.cluster, self.plan.router.node
        result = await self.executor.run(node, router_help_script(cluster), timeout_s=300, inside=True)
        flags = router_flags_of(result.out)
        if not flags:
            said = hide((result.err or result.out).strip())[-200:]
            raise MachineError(f"the router does not print its options: {said}", where=node.host)
        self.plan = make_plan(self.plan.recipe, cluster, router_flags=flags)
        fatal = [item.flag for item in self.plan.substitutions if item.fatal]
        if fatal:
            raise MachineError(
                f"this router has no {', '.join(fatal)}", where=node.host, fix="Install the pinned one."
            )
        for item in self.plan.substitutions:
            self.note("router-probe", f"{item.flag} {item.value}: {item.action}")

    async def _neighbours(self) -> None:
        """Refuse to start on top of somebody.

        Raises:
            MachineError: a port, GPU, container or serve is there already; all are listed.
        """
        prefix = self.plan.recipe.container_prefix

        async def look(node: Node) -> list[str]:
            result = await self.executor.run(
                node, owners_script(self.plan.cluster, ports_of(self.plan, node))
            )
            return summary(read_owners(node, result.out, prefix=prefix))

        found = [line for lines in await self._each(look, self.plan.cluster.nodes) for line in lines]
        if found:
            fix = "If they are yours: `k3repro bringup down`, or stop them by hand; nothing was started."
            raise MachineError(
                f"the nodes are not free: {'; '.join(found[:12])}", where=self.state.cluster, fix=fix
            )
        self.note("free", "ports, GPUs and nodes are free")

    async def _each(
        self, work: Callable[[Node], Awaitable[list[str]]], nodes: Iterable[Node]
    ) -> list[list[str]]:
        return list(await asyncio.gather(*(work(node) for node in nodes)))

    async def _start(self, launches: tuple[Launch, ...], phase: str) -> None:
        # The intent first: a process that is killed between these two lines leaves nothing unknown.
        for launch in launches:
            self.state.roles[launch.role] = {
                "host": launch.node.host,
                "log": launch.log,
                "intended": time.time(),
            }
        self.note(phase, f"starting {' and '.join(launch.role for launch in launches)}")
        scripts = [
            launch_script(item, self.plan, self.state.serve, hold=self.executor.hold) for item in launches
        ]
        pairs = zip(launches, scripts, strict=True)
        await asyncio.gather(*(self._launch(item.role, item.node, script) for item, script in pairs))
        self.note(phase, "started")

    async def _launch(self, role: str, node: Node, script: str) -> None:
        mark = mark_of(self.state.serve, role)
        result = await self.executor.launch(node, script, mark=mark, timeout_s=120)
        _launched(result, role, node)
        started = result.out.split("k3repro started", 1)[-1].split("\n")[0].split()
        self.state.roles[role]["started"] = dict(pair.split("=", 1) for pair in started if "=" in pair)

    async def _alive(self) -> None:
        """Workers have no endpoint of their own: alive and without a fatal line is all one can know."""
        await asyncio.sleep(self.plan.timing("alive_s"))
        await self._look("workers", "alive, no fatal line")

    async def look(self) -> dict[str, RoleStatus]:
        """Status of every role started so far."""
        roles = self.state.roles

        async def one(node: Node) -> dict[str, RoleStatus]:
            here = {role: str(entry["log"]) for role, entry in roles.items() if entry["host"] == node.host}
            if not here:
                return {}
            result = await self.executor.run(node, status_script(self.plan.cluster, self.state.serve, here))
            return read_status(node, result.out)

        found = await asyncio.gather(*(one(node) for node in self.plan.cluster.nodes))
        return {role: status for part in found for role, status in part.items()}

    async def _look(self, phase: str, well: str = "") -> dict[str, RoleStatus]:
        """Fail at the first fatal line or dead role, with the first error of each node.

        Raises:
            FindingError: something died.
        """
        statuses = await self.look()
        dead = [item for item in statuses.values() if item.fatal or not item.alive]
        if dead:
            causes = first_errors(statuses.values())
            names = ", ".join(item.role for item in dead)
            self.note("failed", f"{names} failed", causes=causes)
            lines = [
                f"{node}: {role} line {line} [{name}]: {text}" for node, role, line, name, text in causes
            ]
            raise FindingError(
                f"{names} died. First error of each node: {'; '.join(lines) or 'none logged'}",
                where=phase, fix="Logs are kept; `k3repro bringup down` clears what is left.",
            )  # fmt: skip
        if well:
            self.note(phase, well)
        return statuses

    async def _models(self) -> None:
        """Both masters list the model, within `ready_s`; every poll looks for fatal lines on all nodes."""
        waiting = {launch.role: launch for launch in self.plan.launches[2:]}
        end = time.monotonic() + self.plan.timing("ready_s")
        while waiting:
            for role, launch in list(waiting.items()):
                if await _lists_model(launch):
                    waiting.pop(role)
                    self.note("models", f"{role} lists {launch.flag('--served-model-name')}")
            await self._look("models")
            if waiting and time.monotonic() > end:
                names = ", ".join(waiting)
                fix = "Cold kernels compile for a quarter of an hour; see the logs, or raise order.ready_s."
                raise FindingError(f"no model listed by {names} in time", where="models", fix=fix)
            if waiting:
                await asyncio.sleep(self.plan.timing("poll_s"))

    async def _router(self) -> None:
        node, log = self.plan.router.node, self.plan.router.log
        self.state.roles[ROUTER] = {"host": node.host, "log": log, "intended": time.time()}
        self.note("router", "starting the router")
        script = router_script(self.plan, self.state.serve, hold=self.executor.hold)
        await self._launch(ROUTER, node, script)
        end = time.monotonic() + self.plan.timing("register_s")
        while True:
            statuses = await self._look("router")
            known = registered(statuses[ROUTER].adds)
            if known["Prefill"] and known["Decode"]:
                self.note("router", f"registered {sorted(known['Prefill'])} and {sorted(known['Decode'])}")
                return
            if time.monotonic() > end:
                have = f"{len(known['Prefill'])} prefill, {len(known['Decode'])} decode"
                fix = (
                    "Engines stop pinging after 300 s: relaunch all four. Check proxy_ip and proxy_ping_port."
                )
                raise FindingError(f"the router knows {have}", where="router", fix=fix)
            await asyncio.sleep(min(self.plan.timing("poll_s"), 1.0))

    async def _facts(self) -> None:
        """What the engines printed, against the prediction, before any probe runs."""
        texts: dict[str, str] = {}
        for launch in self.plan.launches:
            result = await self.executor.run(launch.node, logs_script([launch.log]))
            texts |= split_logs(result.out, {launch.role: launch.log})
        facts = read_facts(self.plan, texts)
        self.state.facts = {"startup": facts.as_dict(), "metrics_urls": metrics_urls(self.plan)}
        ranks = [rank for rank in facts.ranks if rank.agrees]
        self.note(
            "facts", f"{len(ranks)} of {len(facts.ranks)} DP ranks print the KV tokens that were predicted"
        )
        for finding in facts.findings:
            self.note("facts", f"finding: {finding}")
        if facts.unconnected:
            raise FindingError(
                f"{' and '.join(facts.unconnected)} say nothing of a transfer connector", where="facts",
                fix="Set --kv-transfer-config on every role (rule transfer-config-on-every-role).",
            )  # fmt: skip

    async def _answers(self) -> None:
        """A router's own endpoints prove nothing: one token does, then one request, then four at once."""
        url, limit = self.plan.router.url, self.plan.timing("answer_s")
        model = self.plan.launches[0].flag("--served-model-name") or ""
        wrong = await complete(url, model, tokens=1, prompt="Hello", timeout_s=limit)
        if wrong:
            await self._look("token")
            raise FindingError(
                f"no token through the router: {wrong}", where=url, fix="See the logs of both masters."
            )
        self.note("token", "one token through the router")
        for concurrency in (1, 4):
            failed = [line for line in await canary(url, model, concurrency, timeout_s=limit) if line]
            if failed:
                await self._look("canary")
                fix = "Relaunch all four roles." if concurrency > 1 else "See the logs of both masters."
                raise FindingError(
                    f"canary at concurrency {concurrency}: {len(failed)} failed ({failed[0]})",
                    where=url, fix=fix,
                )  # fmt: skip
            self.note("canary", f"concurrency {concurrency} answers")
        await self._every_rank(url, model, limit)

    async def _every_rank(self, url: str, model: str, limit: float) -> None:
        """As many requests as a pool has DP ranks, four at a time: the router goes round, each rank gets one.

        The canary alone never reaches the last ranks: a headless worker that cannot receive would pass it.

        Raises:
            FindingError: a rank does not answer.
        """
        ranks, wrong = self.plan.recipe.layout.dp, list[str]()
        for start in range(0, ranks, 4):
            wrong += [
                line for line in await canary(url, model, min(4, ranks - start), timeout_s=limit) if line
            ]
        if wrong:
            await self._look("ranks")
            raise FindingError(
                f"{len(wrong)} of {ranks} requests over all DP ranks failed ({wrong[0]})", where=url,
                fix="A DP rank cannot receive: see rules transfer-config-on-every-role and peer-hosts.",
            )  # fmt: skip
        self.note("ranks", f"{ranks} requests over all DP ranks answer")


def first_errors(statuses: Iterable[RoleStatus]) -> list[tuple[str, str, int, str, str]]:
    """(node, role, line, name, text) of the first error of each node that has one."""
    found = [(item.node, item.role, *item.root_cause) for item in statuses if item.root_cause]
    return [(node, role, line, fatal_name(text), text) for node, role, line, text in found]


def _launched(result: Result, role: str, node: Node) -> None:
    if result.code or "k3repro started" not in result.out:
        said = (result.err or result.out).strip().splitlines()
        raise MachineError(
            f"{role} was not started: {hide(said[-1]) if said else f'exit {result.code}'}", where=node.host,
            fix="Run `k3repro bringup plan` and try the command there by hand.",
        )  # fmt: skip


async def _lists_model(launch: Launch) -> bool:
    url = f"http://{url_host(launch.node.address)}:{launch.flag('--port')}/v1/models"
    status, body = await get(url)
    if status != 200:
        return False
    try:
        return launch.flag("--served-model-name") in [entry["id"] for entry in json.loads(body)["data"]]
    except (ValueError, KeyError, TypeError):
        return False


def _inside_slurm() -> str:
    return os.environ.get("SLURM_JOB_ID", "")


async def bring_up(plan: Plan, cluster_text: str, say: Say) -> State:
    """Bring a plan up; safe to repeat. A serve of the same plan that answers is left alone.

    Raises:
        MachineError, FindingError: see BringUp.run; the state file says what was started.
    """
    file = StateFile(plan.cluster.name)
    with file.locked():
        state = file.load()
        if state is not None:
            why = await _unfit(state, plan)
            if not why:
                say(f"already up: serve {state.serve} at {state.url}")
                return state
            say(f"serve {state.serve} {why}: taking it down first")
            await take_down(file, state, say)
        return await BringUp(plan, file, cluster_text, say).run()


async def look_at(state: State) -> dict[str, RoleStatus]:
    """Status of every role of a state, from its nodes.

    Raises:
        MachineError: a node cannot be reached.
    """
    cluster = state.parsed_cluster()
    executor = make_executor(cluster, job=state.job, folder=StateFile(state.cluster).folder)

    async def one(node: Node) -> dict[str, RoleStatus]:
        here = {role: str(entry["log"]) for role, entry in state.roles.items() if entry["host"] == node.host}
        if not here:
            return {}
        result = await executor.run(node, status_script(cluster, state.serve, here))
        return read_status(node, result.out)

    try:
        found = await asyncio.gather(*(one(node) for node in cluster.nodes))
    finally:
        await executor.close()
    return {role: status for part in found for role, status in part.items()}


async def _unfit(state: State, plan: Plan) -> str:
    """Why a serve that is there is not the one that was asked for; "" when it is."""
    if state.phase not in {"up", "answering"}:
        return f"was left in phase {state.phase}"
    if state.digest != plan.digest:
        return "is of another plan"
    # One token proves one rank of each pool: a worker may be gone and the serve still answer.
    gone = [role for role, status in (await look_at(state)).items() if not status.alive]
    if gone:
        return f"has lost {' and '.join(gone)}"
    model = plan.launches[0].flag("--served-model-name") or ""
    wrong = await complete(state.url, model, tokens=1, prompt="Hello", timeout_s=60)
    return f"does not answer ({wrong})" if wrong else ""


def cluster_text_of(path: str | Path) -> str:
    """The text of a cluster file, as the state keeps it."""
    from k3repro.bringup._cluster import find_pipelines

    file = Path(path)
    file = file if file.is_file() else find_pipelines() / "clusters" / f"{path}.toml"
    return file.read_text(encoding="utf-8")
