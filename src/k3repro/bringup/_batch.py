"""The whole order as one Slurm job: it ends when a step ends, and nothing that a step started outlives it."""

from __future__ import annotations

import shlex
from dataclasses import replace

from k3repro.bringup._cluster import Node
from k3repro.bringup._order import LAST_WORDS, chosen, in_order
from k3repro.bringup._plan import ROUTER, ROUTER_PID, Launch, Plan, folded
from k3repro.bringup._script import joined, launch_script, router_script
from k3repro.bringup._slurm import address_command, slurm_options, step

# Variables that no engine should inherit from whoever submits: the names of `_sanitise`, as a shell pattern.
_SECRETS = "*_TOKEN|TOKEN|*SECRET*|*PASSWORD*|*PASSWD*|*CREDENTIAL*|*API_KEY*|*ACCESS_KEY*|*PRIVATE_KEY*"
_JOB = "k3-job-id"  # stands for the job's number in the scripts of its steps: two jobs share no file
_STEP = "srun --overlap -N1 -n1 --mpi=none"


def batch_job(plan: Plan) -> str:
    """The text of serve.sbatch."""
    cluster = plan.cluster
    options = [f"--job-name=k3repro-{cluster.name}", f"--output={cluster.output or 'k3repro-%j.out'}"]
    options += slurm_options(cluster, gpus=plan.recipe.platform.gpus_per_node)
    options += ["--no-requeue", "--propagate=NONE", "--signal=B:TERM@120"]
    logs = f'{shlex.quote(cluster.logs)}/"$SLURM_JOB_ID"'
    head = ["#!/bin/bash", *(f"#SBATCH {option}" for option in options), "set -eu", *_FRAME]
    head.append(f"echo k3repro: logs in {logs} on every node")
    if cluster.unnamed:
        head += _name_nodes(cluster.interface)
    if cluster.runtime == "pyxis":  # it mounts no folder that is not there yet
        head.append(f"{_STEP.replace('1', '4')} mkdir -p -- {logs} {shlex.quote(cluster.cache)}")
    own = _with_logs(plan, f"{cluster.logs}/{_JOB}")
    body = [_step(plan, item.node, _held(own, item), item.role, item.log) for item in own.launches]
    router = _step(plan, plan.router.node, _held_router(own), ROUTER, own.router.log)
    return joined(*head, *in_order(plan, body, router), "while look; do sleep 5; done")


def _with_logs(plan: Plan, logs: str) -> Plan:
    """The plan with its logs, run files and tombstones in another folder."""

    def moved(log: str) -> str:
        return f"{logs}/{log.rpartition('/')[2]}"

    launches = tuple(replace(item, log=moved(item.log)) for item in plan.launches)
    router = replace(plan.router, log=moved(plan.router.log))
    return replace(plan, cluster=replace(plan.cluster, logs=logs), launches=launches, router=router)


# srun turns SIGTERM into SIGKILL of its tasks (src/srun: job_force_termination), and a killed step removes no
# container. So the sruns ignore it, whoever sends it; scancel signals the tasks. What is left after 90 s ends
# with the job.
_FRAME = (
    "for name in $(compgen -e); do",
    f'  case ${{name^^}} in SLURM*) ;; {_SECRETS}) unset "$name" || true ;; esac',
    "done",
    "steps=() roles=() hosts=() logs=()",
    "stop() {",
    "  trap - EXIT TERM INT",
    '  scancel --signal=TERM "$SLURM_JOB_ID" 2> /dev/null || true',
    "  for _ in {1..90}; do",
    '    kill -0 "${steps[@]}" 2> /dev/null || break',
    "    sleep 1",
    "  done",
    "}",
    "look() {",
    '  for i in "${!steps[@]}"; do',
    '    kill -0 "${steps[i]}" 2> /dev/null && continue',
    "    code=0",
    '    wait "${steps[i]}" || code=$?',
    '    echo "k3repro: ${roles[i]} has ended with exit code $code, and the job with it" >&2',
    f'    {_STEP} -w "${{hosts[i]}}" sh -s -- "${{logs[i]}}" <<\'END\' || true',
    f"{LAST_WORDS}END",
    "    exit 1",
    "  done",
    "}",
    "trap stop EXIT",
    "trap 'exit 143' TERM INT",
)


def _held(plan: Plan, launch: Launch) -> str:
    """A role's script that lasts as long as the role. A job that ends takes no new step, so the one that
    started a container removes it."""
    script = launch_script(launch, plan, f"job-{_JOB}", hold=not plan.cluster.detached)
    if not plan.cluster.detached:
        return script
    runtime, name = plan.cluster.runtime, launch.container
    return script + joined(
        f"trap '{runtime} rm -f {name} > /dev/null' EXIT",
        "trap 'exit 143' TERM INT",
        f"{runtime} wait {name} > /dev/null &",
        "wait $!",
        f"code=$({runtime} inspect --format '{{{{.State.ExitCode}}}}' {name})",
        'exit "$code"',
    )


def _held_router(plan: Plan) -> str:
    cluster = plan.cluster
    script = router_script(plan, f"job-{_JOB}", hold=not cluster.detached)
    if not cluster.detached:
        return script
    pid = shlex.quote(f"{plan.recipe.get('container', 'logs')}/{ROUTER_PID}")
    alive = f'sleep 5; while kill -0 "$(cat {pid})" 2> /dev/null; do sleep 5; done'
    container = plan.launch("prefill_master").container
    return script + joined(f"{cluster.runtime} exec {container} /bin/sh -c {shlex.quote(alive)}", "exit 1")


def _name_nodes(interface: str) -> list[str]:
    """Hosts that Slurm gave, and the address each has on the interface of the cluster file."""
    return [
        'mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")',
        "addresses=()",
        'for node in "${nodes[@]}"; do',
        f'  line=$({_STEP} -w "$node" {shlex.join(address_command(interface))})',
        f'  [ -n "$line" ] || {{ echo "k3repro: $node has no IPv4 address on {interface}" >&2; exit 1; }}',
        "  line=${line#* inet }",
        '  addresses+=("${line%%/*}")',
        "done",
    ]


def _step(plan: Plan, node: Node, script: str, role: str, log: str) -> str:
    """A step of the batch script; the job's number, and the addresses Slurm gave, are put in first."""
    end, cluster = f"END_{role.upper()}", plan.cluster
    name = f'"{chosen("nodes", node)}"' if cluster.unnamed else node.host
    *srun, _ = step(cluster, name)
    given = [(item.host, chosen("addresses", item)) for item in cluster.nodes] if cluster.unnamed else []
    pairs = [(_JOB, "$SLURM_JOB_ID"), *given]
    edit = " ".join(f'-e "s/{old}/{new}/g"' for old, new in pairs)
    file = f'{shlex.quote(cluster.logs)}/"$SLURM_JOB_ID"/{log.rpartition("/")[2]}'
    kept = f'steps+=("$!") roles+=({role}) hosts+=({name}) logs+=({file})'
    run = f"trap '' TERM; exec {folded(srun)} {name} sh -s"
    return f"({run} < <(sed {edit} <<'{end}'\n{script}{end}\n)) &\n{kept}"
