"""What `bringup plan --write` gives: a script per role, the whole order over ssh or as a Slurm batch job."""

from __future__ import annotations

import shlex

from k3repro.bringup._cluster import ROLES, Node
from k3repro.bringup._plan import ROUTER, ROUTER_PID, Launch, Plan, folded, url_host
from k3repro.bringup._script import dockerfile, joined, launch_script, router_script
from k3repro.bringup._slurm import address_command, slurm_options, step_options

# Variables that no engine should inherit from whoever submits: the names of `_sanitise`, as a shell pattern.
_SECRETS = "*_TOKEN|TOKEN|*SECRET*|*PASSWORD*|*PASSWD*|*CREDENTIAL*|*API_KEY*|*ACCESS_KEY*|*PRIVATE_KEY*"


def hand_scripts(plan: Plan) -> dict[str, str]:
    """File name -> text: one script per role in order, the whole order, an sbatch file, a Dockerfile."""
    files = {}
    for index, launch in enumerate(plan.launches, start=1):
        files[f"{index}0-{launch.role}.sh"] = f"#!/bin/sh\n{launch_script(launch, plan, 'manual')}"
    files["50-router.sh"] = f"#!/bin/sh\n{router_script(plan, 'manual')}"
    if not plan.cluster.unnamed:
        files["run-over-ssh.sh"] = _over_ssh(plan)
    files["serve.sbatch"] = _batch(plan)
    files["Dockerfile"] = dockerfile(plan)
    return files


def _in_order(plan: Plan, start: list[str], router: str, look: str = "") -> list[str]:
    """Workers, masters, both model lists, the router. `look` runs before each poll of a list."""
    alive = f"sleep {plan.timing('alive_s'):g}"
    return [*start[:2], alive, *start[2:], *_wait_for_models(plan, look), router]


def _wait_for_models(plan: Plan, look: str) -> list[str]:
    """Poll both masters' model list, as the recipe does."""
    lines, model = [], plan.launches[0].flag("--served-model-name") or ""
    polls = int(plan.timing("ready_s") // max(plan.timing("poll_s"), 1))
    for role in ("prefill_master", "decode_master"):
        launch = plan.launch(role)
        url = f"http://{url_host(launch.node.address)}:{launch.flag('--port')}/v1/models"
        lines += [
            "n=0",
            f"until curl -sf --noproxy '*' {_url(plan, url, launch.node)} | grep -q {shlex.quote(model)}; do",
            *([f"  {look}"] if look else []),
            f"  n=$((n + 1)); [ $n -lt {polls} ] || {{ echo '{role} lists no model' >&2; exit 1; }}",
            f"  sleep {plan.timing('poll_s'):g}",
            "done",
        ]
    return lines


def _url(plan: Plan, url: str, node: Node) -> str:
    if not plan.cluster.unnamed:
        return shlex.quote(url)
    return f'"{url.replace(node.address, _chosen("addresses", node))}"'


def _chosen(what: str, node: Node) -> str:
    return f"${{{what}[{ROLES.index(node.role)}]}}"


def _over_ssh(plan: Plan) -> str:
    cluster = plan.cluster
    words = ["ssh", *(["-p", str(cluster.port)] if cluster.port != 22 else [])]
    words += ["-i", cluster.identity] if cluster.identity else []
    words += ["-o", f"UserKnownHostsFile={cluster.known_hosts}"] if cluster.known_hosts else []
    user = f"{cluster.user}@" if cluster.user else ""

    def to(role: str, file: str) -> str:
        return f"{shlex.join([*words, user + cluster.node(role).address])} sh -s < {file}"

    start = [to(role, f"{index}0-{role}.sh") for index, role in enumerate(ROLES, start=1)]
    head = ["#!/bin/sh", "# Workers, masters, then the router. Stop in reverse order.", "set -eu"]
    order = _in_order(plan, start, to("prefill_master", "50-router.sh"))
    return joined(*head, 'cd "$(dirname "$0")"', *order)


def _batch(plan: Plan) -> str:
    """The whole order as one job: it ends when any step ends, and no step outlives it."""
    cluster = plan.cluster
    options = [f"--job-name=k3repro-{cluster.name}", f"--output={cluster.output or 'k3repro-%j.out'}"]
    options += slurm_options(cluster, gpus=plan.recipe.platform.gpus_per_node)
    options += ["--no-requeue", "--propagate=NONE", "--signal=B:TERM@120"]
    head = ["#!/bin/bash", *(f"#SBATCH {option}" for option in options), "set -eu", *_FRAME]
    if cluster.unnamed:
        head += _name_nodes(cluster.interface)
    if cluster.runtime == "pyxis":
        head.append(
            f"srun --overlap -N4 -n4 --mpi=none mkdir -p -- {shlex.join([cluster.logs, cluster.cache])}"
        )
    body = [_step(plan, item.node, _held(plan, item), item.role) for item in plan.launches]
    router = _step(plan, plan.router.node, _held_router(plan), ROUTER)
    url = _url(plan, plan.router.url, plan.router.node)
    end = [f"echo k3repro: serving at {url}", "while look; do sleep 5; done"]
    return joined(*head, *_in_order(plan, body, router, "look"), *end)


_FRAME = (
    "for name in $(compgen -e); do",
    f'  case ${{name^^}} in SLURM*) ;; {_SECRETS}) unset "$name" || true ;; esac',
    "done",
    "steps=() roles=()",
    "stop() {",
    "  trap - EXIT TERM INT",
    '  [ "${#steps[@]}" = 0 ] || kill "${steps[@]}" 2> /dev/null || true',
    "  wait",
    "}",
    "look() {",
    '  for i in "${!steps[@]}"; do',
    '    kill -0 "${steps[i]}" 2> /dev/null && continue',
    '    echo "k3repro: ${roles[i]} has ended, and the job with it" >&2',
    "    exit 1",
    "  done",
    "}",
    "trap stop EXIT",
    "trap 'exit 143' TERM INT",
)


def _held(plan: Plan, launch: Launch) -> str:
    """A role's script that lasts as long as the role. A job that ends takes no new step, so the one that
    started a container removes it."""
    cluster = plan.cluster
    script = launch_script(launch, plan, "manual", hold=not cluster.detached)
    if not cluster.detached:
        return script
    return script + joined(
        f"trap '{cluster.runtime} rm -f {launch.container} > /dev/null' EXIT",
        "trap 'exit 143' TERM INT",
        f"{cluster.runtime} wait {launch.container} &",
        "wait $!",
        "exit 1",
    )


def _held_router(plan: Plan) -> str:
    cluster = plan.cluster
    script = router_script(plan, "manual", hold=not cluster.detached)
    if not cluster.detached:
        return script
    pid = shlex.quote(f"{plan.recipe.get('container', 'logs')}/{ROUTER_PID}")
    alive = f'sleep 5; while kill -0 "$(cat {pid})" 2> /dev/null; do sleep 5; done'
    container = plan.launch("prefill_master").container
    return script + joined(f"{cluster.runtime} exec {container} /bin/sh -c {shlex.quote(alive)}", "exit 1")


def _name_nodes(interface: str) -> list[str]:
    """Hosts that Slurm gave, and the address each has on the interface of the cluster file."""
    step = 'srun --overlap -N1 -n1 --mpi=none -w "$node"'
    return [
        'mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")',
        "addresses=()",
        'for node in "${nodes[@]}"; do',
        f"  line=$({step} {shlex.join(address_command(interface))})",
        "  line=${line#* inet }",
        '  addresses+=("${line%%/*}")',
        "done",
    ]


def _step(plan: Plan, node: Node, script: str, role: str) -> str:
    """A step of the batch script; where Slurm chose the nodes their addresses are put in first."""
    end, cluster = f"END_{role.upper()}", plan.cluster
    name = f'"{_chosen("nodes", node)}"' if cluster.unnamed else node.host
    srun = folded(["srun", "--overlap", "-N1", "-n1", *step_options(cluster)])
    kept = f'steps+=("$!") roles+=({role})'
    if not cluster.unnamed:
        return f"{srun} -w {name} sh -s <<'{end}' &\n{script}{end}\n{kept}"
    names = " ".join(f'-e "s/{item.host}/{_chosen("addresses", item)}/g"' for item in cluster.nodes)
    return f"{srun} -w {name} sh -s < <(sed {names} <<'{end}'\n{script}{end}\n) &\n{kept}"
