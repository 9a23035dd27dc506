"""Serves that the written scripts started: no state file knows them, but Slurm and the nodes do."""

from __future__ import annotations

import asyncio
from pathlib import Path

from k3repro.bringup._cluster import Cluster, Node
from k3repro.bringup._executors import jobs_named, make_executor
from k3repro.bringup._hand import BY_HAND
from k3repro.bringup._node_status import owners_script, read_owners
from k3repro.errors import K3Error


async def started_by_hand(cluster: Cluster) -> list[str]:
    """A line for each job of serve.sbatch, or each role of run-over-ssh.sh; or why nobody could look."""
    if cluster.scheduler == "slurm":
        try:
            jobs = await jobs_named(f"k3repro-{cluster.name}")
        except K3Error as error:
            return [f"not looked for batch jobs: {error.what}"]
        return [f"batch job {job}: scancel {job} ends it and its roles" for job in jobs]
    try:
        executor = make_executor(cluster, folder=Path())
    except K3Error as error:
        return [f"not looked at the nodes: {error.what}"]

    async def look(node: Node) -> list[str]:
        try:
            result = await executor.run(node, owners_script(cluster, ()), timeout_s=20)
        except K3Error as error:
            return [f"{node.host}: not looked at: {error.what}"]
        found = [f"{item.what} ({item.owner})" for item in read_owners(node, result.out)]
        ours = [item for item in found if f"{BY_HAND}:" in item and "GPU" not in item]
        return [f"{node.host}: {item}; stop.sh of `plan --write` ends it" for item in sorted(set(ours))]

    try:
        lines = [line for part in await asyncio.gather(*map(look, cluster.nodes)) for line in part]
    finally:
        await executor.close()
    return list(dict.fromkeys(lines))
