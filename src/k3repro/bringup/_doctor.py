"""doctor: a read-only look at all nodes at once. A table of checks by node, with a fix for every red cell."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from k3repro.bringup._cluster import Cluster, Node
from k3repro.bringup._executors import Executor
from k3repro.bringup._node_status import read_owners
from k3repro.bringup._plan import Plan
from k3repro.bringup._probe_node import NodeFacts, probe_script, read_probe
from k3repro.bringup._up import ports_of
from k3repro.errors import MachineError

GOOD, BAD, UNKNOWN, NOT_APPLICABLE = "ok", "bad", "unknown", "n/a"
_GIB = 2**30
# Idle cards hold some driver memory; more than this share is a tenant (recipe, framework preflight).
IDLE_SHARE = 0.05
SKEW_S = 1.0
DISK_GIB = 20


@dataclass(frozen=True, slots=True)
class DoctorCell:
    """One check on one node: state ok, bad, unknown or n/a, what was seen, what fixes it."""

    check: str
    node: str
    state: str
    seen: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class Doctor:
    """All cells, by check and node."""

    cells: tuple[DoctorCell, ...]
    seconds: float

    @property
    def ok(self) -> bool:
        """No red cell."""
        return not any(cell.state == BAD for cell in self.cells)

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {"ok": self.ok, "seconds": self.seconds, "cells": [asdict(cell) for cell in self.cells]}


Judged = tuple[str, str, str]
Judge = Callable[[NodeFacts, Plan, Mapping[str, NodeFacts]], Judged]
CHECKS: dict[str, Judge] = {}
# Without hardware these say nothing; a twin may bring a fake /sys, which is judged like a real one.
_GPU = {"architecture", "memory-idle", "driver", "peermem", "memlock", "config", "numa-balancing"}
_GPU.add("render-group")
_FABRIC = {"rails", "gid", "routes", "userspace"}


def check(name: str) -> Callable[[Judge], Judge]:
    """Register a check."""

    def register(judge: Judge) -> Judge:
        CHECKS[name] = judge
        return judge

    return register


async def examine(plan: Plan, executor: Executor) -> Doctor:
    """Look at all nodes at once. Nothing is changed on them."""
    begun = time.monotonic()
    facts = await asyncio.gather(*(_look(node, plan, executor) for node in plan.cluster.nodes))
    by_host = {item.host: item for item in facts}
    cells = [cell for item in facts for cell in _judge(item, plan, by_host)]
    order = ["reachable", *CHECKS]
    hosts = [node.host for node in plan.cluster.nodes]
    cells.sort(key=lambda cell: (order.index(cell.check), hosts.index(cell.node)))
    return Doctor(tuple(cells), round(time.monotonic() - begun, 2))


async def _look(node: Node, plan: Plan, executor: Executor) -> NodeFacts:
    try:
        await executor.run(node, "true\n", timeout_s=20)  # the connection itself must not count as clock skew
        asked = time.time()
        result = await executor.run(node, probe_script(plan.cluster, ports_of(plan, node)), timeout_s=30)
    except MachineError as error:
        return NodeFacts(node.host, error=str(error))
    return read_probe(node.host, result.out, asked, time.time())


def judge_facts(facts: NodeFacts, plan: Plan, everybody: Mapping[str, NodeFacts]) -> list[DoctorCell]:
    """All cells of one node."""
    return list(_judge(facts, plan, everybody))


def _judge(facts: NodeFacts, plan: Plan, everybody: Mapping[str, NodeFacts]) -> Iterator[DoctorCell]:
    if facts.error:
        yield DoctorCell(
            "reachable", facts.host, BAD, facts.error, "Log in by hand; see [ssh] in the cluster file."
        )
        return
    yield DoctorCell("reachable", facts.host, GOOD, "answers")
    for name, judge in CHECKS.items():
        if why := _skipped(name, plan.cluster):
            yield DoctorCell(name, facts.host, NOT_APPLICABLE, why)
        else:
            yield DoctorCell(name, facts.host, *judge(facts, plan, everybody))


def _skipped(name: str, cluster: Cluster) -> str:
    """Why a check says nothing about this cluster; empty when it does."""
    if name == "image" and cluster.runtime == "process":
        return "no image"
    if name == "image" and not cluster.detached and not cluster.image.startswith("/"):
        return "every step imports it"
    if name == "address" and cluster.scheduler == "local":
        return "one machine"
    played = cluster.simulated and not cluster.sysroot and name in _GPU | _FABRIC
    return "twin" if played else ""


@check("architecture")
def _architecture(facts: NodeFacts, plan: Plan, _: Mapping[str, NodeFacts]) -> Judged:
    want, count = plan.recipe.platform.arch, plan.recipe.platform.gpus_per_node
    have = Counter(facts.archs)
    seen = ", ".join(f"{n} x {arch}" for arch, n in have.items()) or "no GPU"
    good = have == Counter({want: count})
    return (GOOD if good else BAD), seen, "" if good else f"The recipe needs {count} x {want} on every node."


@check("memory-idle")
def _memory(facts: NodeFacts, _: Plan, __: Mapping[str, NodeFacts]) -> Judged:
    if not facts.vram_total:
        return UNKNOWN, "no card reports memory", "Load the amdgpu driver."
    worst = max(range(len(facts.vram_total)), key=lambda i: facts.vram_used[i] / max(facts.vram_total[i], 1))
    used, total = facts.vram_used[worst], facts.vram_total[worst]
    seen = f"card {worst}: {used / _GIB:.1f} of {total / _GIB:.1f} GiB used"
    if used > IDLE_SHARE * total:
        return BAD, seen, "A tenant is there: find it with rocm-smi --showpids, or drain the node."
    return GOOD, seen, ""


@check("leftovers")
def _leftovers(facts: NodeFacts, plan: Plan, _: Mapping[str, NodeFacts]) -> Judged:
    owners = [item for item in _owners(facts, plan) if not item.startswith("port ")]
    owners.sort(key=lambda item: item.startswith("serve "))  # processes of GPUs and containers first
    fix = "If it is yours: k3repro bringup down; else ask its owner." if owners else ""
    return (BAD if owners else GOOD), "; ".join(owners[:4]) or "none", fix


@check("ports")
def _ports(facts: NodeFacts, plan: Plan, _: Mapping[str, NodeFacts]) -> Judged:
    taken = [item for item in _owners(facts, plan) if item.startswith("port ")]
    fix = "Stop that process, or change [ports] of the recipe." if taken else ""
    return (BAD if taken else GOOD), "; ".join(taken[:4]) or "free", fix


def _owners(facts: NodeFacts, plan: Plan) -> list[str]:
    node = next(node for node in plan.cluster.nodes if node.host == facts.host)
    found = read_owners(node, facts.owners, prefix=plan.recipe.container_prefix)
    return [f"{item.what} ({item.owner})" for item in found]


@check("rails")
def _rails(facts: NodeFacts, plan: Plan, _: Mapping[str, NodeFacts]) -> Judged:
    wrong = [f"{rail} {facts.rails.get(rail, 'absent')}" for rail in plan.cluster.rails
             if facts.rails.get(rail) != "ACTIVE"]  # fmt: skip
    listed = tuple(plan.cluster.rails)
    also = [name for name in facts.rails if name.startswith(listed) and name not in listed]
    whole = plan.launches[0].variables.get("NCCL_IB_HCA", "").startswith("=")
    if listed and also and not whole:
        fix = 'NCCL matches beginnings of names: "env.all.NCCL_IB_HCA" = "=@fabric.rails".'
        return BAD, f"NCCL takes {', '.join(also)} as well", fix
    if not wrong:
        return GOOD, f"{len(plan.cluster.rails)} ACTIVE", ""
    return (
        BAD,
        "; ".join(wrong),
        "A rail that is down becomes silent TCP: fix the cable or port, or [fabric] rails.",
    )


@check("gid")
def _gid(facts: NodeFacts, plan: Plan, _: Mapping[str, NodeFacts]) -> Judged:
    wrong = []
    for rail in plan.cluster.rails:
        gid, kind = facts.gids.get(rail, ""), facts.gid_types.get(rail, "")
        mapped = gid.lower().startswith("0000:0000:0000:0000:0000:ffff:")
        if not mapped or "v2" not in kind.lower():
            wrong.append(f"{rail}: {gid or 'none'} {kind}".strip())
    if not wrong:
        return GOOD, f"index {plan.cluster.gid}, RoCE v2, IPv4", ""
    fix = "Choose the index whose type is RoCE v2 and whose address is IPv4-mapped (show_gids)."
    return BAD, "; ".join(wrong[:3]), fix


@check("routes")
def _routes(facts: NodeFacts, plan: Plan, _: Mapping[str, NodeFacts]) -> Judged:
    """Every rail must reach every other rail; strict reverse-path filtering drops what crosses."""
    strict = [name for name, value in facts.rp_filter.items() if value == "1" and name in facts.devices]
    strict += ["all"] if facts.rp_filter.get("all") == "1" else []
    if strict:
        names = ", ".join(sorted(strict)[:4])
        return (
            BAD,
            f"rp_filter=1 on {names}",
            f"sysctl -w net.ipv4.conf.{strict[0]}.rp_filter=2 (each of them).",
        )
    tables = {line.split(" table ")[1].split()[0] for line in facts.routes if " table " in line} - {"local"}
    if len(facts.devices) > 1 and not tables and not any(" via " in line for line in facts.routes):
        return BAD, "no cross-rail route", "Add a routing table per rail (source rule and gateway)."
    return GOOD, f"rp_filter loose, {len(tables)} extra tables", ""


@check("driver")
def _driver(facts: NodeFacts, plan: Plan, everybody: Mapping[str, NodeFacts]) -> Judged:
    nic = {"mlx5": "mlx5_core", "bnxt": "bnxt_re"}.get(plan.cluster.fabric_kind, "")
    names = ["amdgpu", *([nic] if nic else [])]
    missing = [name for name in names if name not in facts.modules]
    if missing:
        return BAD, f"not loaded: {', '.join(missing)}", f"modprobe {missing[0]}."
    seen = ", ".join(f"{name} {facts.modules[name]}" for name in names)
    usual, _ = Counter(tuple(item.modules.get(name) for name in names) for item in everybody.values()
                       if not item.error).most_common(1)[0]  # fmt: skip
    if tuple(facts.modules[name] for name in names) != usual:
        return BAD, seen, "Another version than the other nodes: install the same driver everywhere."
    return GOOD, seen, ""


@check("userspace")
def _userspace(facts: NodeFacts, plan: Plan, _: Mapping[str, NodeFacts]) -> Judged:
    folders = [path for path, kind in facts.libraries.items() if kind == "folder"]
    if folders:
        fix = f"An earlier container start made it: rmdir {folders[0]}, then install the library."
        return BAD, f"{folders[0]} is a folder", fix
    missing = [path for path, kind in facts.libraries.items() if kind == "missing"]
    if missing:
        return (
            BAD,
            f"no regular file {missing[0]}",
            "Install the host's RDMA userspace, or correct [fabric] userspace.",
        )
    if not plan.cluster.userspace:
        return (
            BAD,
            "nothing is mounted",
            "List the host's verbs libraries in [fabric] userspace: the ABI must match.",
        )
    return GOOD, f"{len(facts.libraries)} files", ""


@check("peermem")
def _peermem(facts: NodeFacts, _: Plan, __: Mapping[str, NodeFacts]) -> Judged:
    names = [name for name in ("amdgpu_peermem", "ib_peer_mem") if name in facts.modules]
    if names:
        return GOOD, names[0], ""
    fix = "modprobe amdgpu_peermem, or a kernel with dma-buf: else memory registration fails (errno 22)."
    return UNKNOWN, "no peermem module; dma-buf may do", fix


@check("numa-balancing")
def _numa(facts: NodeFacts, _: Plan, __: Mapping[str, NodeFacts]) -> Judged:
    """The kernel moves pages of running engines between sockets; vendors ask for it to be off."""
    if not facts.numa_balancing:
        return UNKNOWN, "the kernel does not say", "Look at /proc/sys/kernel/numa_balancing."
    if facts.numa_balancing != "0":
        return BAD, "on", "sysctl -w kernel.numa_balancing=0."
    return GOOD, "off", ""


@check("config")
def _config(facts: NodeFacts, plan: Plan, everybody: Mapping[str, NodeFacts]) -> Judged:
    if not facts.config_sha:
        return (
            BAD,
            f"no config.json in {plan.cluster.model}",
            "Mount or copy the checkpoint; see [paths] model.",
        )
    usual, _ = Counter(item.config_sha for item in everybody.values() if item.config_sha).most_common(1)[0]
    if facts.config_sha != usual:
        return BAD, facts.config_sha[:12], "Another checkpoint than the other nodes: sync it."
    if facts.shards_wanted and facts.shards != facts.shards_wanted:
        return (
            BAD,
            f"{facts.shards} of {facts.shards_wanted} shards",
            "The copy is not complete: sync it again.",
        )
    return GOOD, f"{facts.config_sha[:12]}, {facts.shards} shards", ""


@check("clock")
def _clock(facts: NodeFacts, _: Plan, __: Mapping[str, NodeFacts]) -> Judged:
    skew = facts.skew_s
    if skew is None:
        return UNKNOWN, "no time", ""
    seen = f"{skew:+.2f} s, within {facts.skew_error_s:.2f} s"
    if abs(skew) - facts.skew_error_s > SKEW_S:
        return BAD, seen, "Start chrony or systemd-timesyncd: logs and timings of the nodes are compared."
    return GOOD, seen, ""


@check("disk")
def _disk(facts: NodeFacts, _: Plan, __: Mapping[str, NodeFacts]) -> Judged:
    if not facts.disk_free:
        return UNKNOWN, "df says nothing", ""
    path, free = min(facts.disk_free.items(), key=lambda item: item[1])
    good = free >= DISK_GIB * _GIB
    return (
        (GOOD if good else BAD),
        f"{path}: {free / _GIB:.0f} GiB free",
        "" if good else "Free space, or move [paths].",
    )
