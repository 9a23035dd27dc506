"""The commands as shell scripts: what executors send to `sh -s` on a node, and what a person runs by hand.

A script is data on standard input, so nothing but `sh -s` is ever an argument of ssh or srun.
"""

from __future__ import annotations

import shlex

from k3repro.bringup._cluster import ROLES, Cluster, Node
from k3repro.bringup._plan import (
    MARK,
    ROUTER,
    Launch,
    Plan,
    container_argv,
    folded,
    image_of,
    inside_image,
    router_argv,
)
from k3repro.bringup._slurm import address_command, slurm_options, step_options

STARTED = "k3repro started"
_START_TIME = "sed 's/.*) //' /proc/$pid/stat | cut -d' ' -f20"


def mark_of(serve: str, role: str) -> str:
    """What marks a process or container as started for one serve and role."""
    return f"{serve}:{role}"


def tombstone(cluster: Cluster, serve: str) -> str:
    """A file that `down` leaves on a node: a launch that is still on its way finds it and does nothing."""
    return f"{cluster.logs}/.stopped-{serve}"


def run_file(cluster: Cluster, mark: str) -> str:
    """Where a node keeps pid and start time of what runs under a mark.

    The mark in the environment is not enough: engines and router set their process title over it.
    """
    return f"{cluster.logs}/.run-{mark}"


def launch_script(launch: Launch, plan: Plan, serve: str, *, hold: bool = False) -> str:
    """Start one role on its node and print what identifies it. `hold`: stay until it ends (a Slurm step)."""
    cluster, mark = plan.cluster, mark_of(serve, launch.role)
    lines = _head(plan, serve, [cluster.logs, f"{cluster.cache}/{launch.node.pool}"])
    lines += _keep(launch.log)
    if not cluster.detached:
        argv = ["setsid", *inside_image(launch.engine, plan, (*launch.env, (MARK, mark)))]
        return _lines(*lines, *_background(argv, launch.log, run_file(cluster, mark), hold))
    # A library that is missing on the host would be mounted as an empty folder: look before docker does.
    for mount in cluster.userspace:
        file = shlex.quote(mount.host)
        lines.append(f"[ -f {file} ] || {{ echo 'k3repro: no regular file' {file} >&2; exit 78; }}")
    return _lines(*lines, *_container(container_argv(launch, plan, mark)))


def router_script(plan: Plan, serve: str, *, hold: bool = False) -> str:
    """Start the router beside the prefill master."""
    cluster = plan.cluster
    lines = [*_head(plan, serve, [cluster.logs]), *_keep(plan.router.log)]
    mark = mark_of(serve, ROUTER)
    if not cluster.detached:
        argv = ["setsid", *inside_image(router_argv(plan), plan, ((MARK, mark),))]
        return _lines(*lines, *_background(argv, plan.router.log, run_file(cluster, mark), hold))
    *words, command = router_argv(plan)
    return _lines(
        *lines, *_document("router", command), f'{folded(words)} "$router"', f"echo '{STARTED}' router"
    )


def router_help_script(cluster: Cluster) -> str:
    """Print the router's options, from where it will run."""
    ask = shlex.join([*cluster.router, "--help"])
    if cluster.runtime == "apptainer":
        image = cluster.image if cluster.image.startswith("/") else f"docker://{image_of(cluster)}"
        ask = shlex.join(["apptainer", "exec", image, *cluster.router, "--help"])
    if cluster.detached:
        pull = f"--pull={cluster.pull}"
        words = [
            cluster.runtime,
            "run",
            "--rm",
            pull,
            "--entrypoint",
            "/bin/sh",
            image_of(cluster),
            "-c",
            ask,
        ]
        ask = shlex.join(words)
    return _lines(*cluster.before, ask)


def _head(plan: Plan, serve: str, folders: list[str]) -> list[str]:
    stone = shlex.quote(tombstone(plan.cluster, serve))
    return [
        "set -eu",
        *plan.cluster.before,
        f"mkdir -p -- {shlex.join(folders)}",
        f"find {shlex.quote(plan.cluster.logs)} -maxdepth 1 -name '.stopped-*' -mmin +1440 -delete",
        f"if [ -e {stone} ]; then echo 'k3repro: this serve was taken down' >&2; exit 75; fi",
    ]


def _keep(log: str) -> list[str]:
    """The log of the serve before stays beside the new one; older ones go."""
    file = shlex.quote(log)
    return [f"[ ! -f {file} ] || mv -f {file} {shlex.quote(log + '.previous')}"]


def _background(argv: list[str], log: str, run: str, hold: bool) -> list[str]:
    lines = [f"{folded(argv)} \\\n  > {shlex.quote(log)} 2>&1 < /dev/null &", "pid=$!"]
    lines += [f"start=$({_START_TIME})", f'echo "$pid $start" > {shlex.quote(run)}']
    lines.append(f'echo "{STARTED} pid=$pid start=$start"')
    return [*lines, "wait $pid || true"] if hold else lines


def _container(argv: tuple[str, ...]) -> list[str]:
    """The host's render group goes by its number: the image need not know its name."""
    *words, command = argv
    return [
        *_document("engine", command),
        "render=$(getent group render | cut -d: -f3)",
        f'id=$({folded(words[:2])} ${{render:+--group-add "$render"}} \\\n  {folded(words[2:])} "$engine")',
        f'echo "{STARTED} container=$id"',
    ]


def _document(name: str, command: str) -> list[str]:
    """A command in a shell variable, word for word."""
    return [f"{name}=$(cat <<'{name.upper()}'", command, name.upper(), ")"]


def _lines(*lines: str) -> str:
    return "\n".join(lines) + "\n"


def hand_scripts(plan: Plan) -> dict[str, str]:
    """File name -> text: one script per role in order, the whole order, an sbatch file, a Dockerfile."""
    files = {}
    for index, launch in enumerate(plan.launches, start=1):
        files[f"{index}0-{launch.role}.sh"] = f"#!/bin/sh\n{launch_script(launch, plan, 'manual')}"
    files["50-router.sh"] = f"#!/bin/sh\n{router_script(plan, 'manual')}"
    if not plan.cluster.unnamed:
        files["run-over-ssh.sh"] = _over_ssh(plan)
    files["serve.sbatch"] = _sbatch(plan)
    files["Dockerfile"] = dockerfile(plan)
    return files


def _names(plan: Plan) -> list[tuple[str, str]]:
    return [(f"{index}0-{role}.sh", role) for index, role in enumerate(ROLES, start=1)]


def _wait_for_models(plan: Plan) -> list[str]:
    """Poll both masters' model list, as the recipe does."""
    lines, model = [], plan.launches[0].flag("--served-model-name") or ""
    polls = int(plan.timing("ready_s") // max(plan.timing("poll_s"), 1))
    for role in ("prefill_master", "decode_master"):
        launch = plan.launch(role)
        url = f"http://{launch.node.address}:{launch.flag('--port')}/v1/models"
        lines += [
            "n=0",
            f"until curl -sf {_url(plan, url, launch.node)} | grep -q {shlex.quote(model)}; do",
            f"  n=$((n + 1)); [ $n -lt {polls} ] || {{ echo '{role} lists no model' >&2; exit 1; }}",
            f"  sleep {plan.timing('poll_s'):g}",
            "done",
        ]
    return lines


def _url(plan: Plan, url: str, node: Node) -> str:
    if not plan.cluster.unnamed:
        return shlex.quote(url)
    chosen = f"${{addresses[{ROLES.index(node.role)}]}}"
    return f'"{url.replace(node.address, chosen)}"'


def _in_order(plan: Plan, start: list[str], router: str) -> list[str]:
    alive = f"sleep {plan.timing('alive_s'):g}"
    return [*start[:2], alive, *start[2:], *_wait_for_models(plan), router]


def _over_ssh(plan: Plan) -> str:
    user = f"{plan.cluster.user}@" if plan.cluster.user else ""
    port = f"-p {plan.cluster.port} " if plan.cluster.port != 22 else ""

    def to(role: str, file: str) -> str:
        return f"ssh {port}{shlex.quote(user + plan.cluster.node(role).address)} sh -s < {file}"

    start = [to(role, file) for file, role in _names(plan)]
    head = ["#!/bin/sh", "# Workers, masters, then the router. Stop in reverse order.", "set -eu"]
    order = _in_order(plan, start, to("prefill_master", "50-router.sh"))
    return _lines(*head, 'cd "$(dirname "$0")"', *order)


def _sbatch(plan: Plan) -> str:
    cluster = plan.cluster
    options = [f"--job-name=k3repro-{cluster.name}", f"--output={cluster.output or 'k3repro-%j.out'}"]
    options += slurm_options(cluster, gpus=plan.recipe.platform.gpus_per_node)
    head = ["#!/bin/bash", *(f"#SBATCH {option}" for option in options), "set -eu"]
    if cluster.unnamed:
        head += _name_nodes(cluster.interface)
    hold = not cluster.detached
    body = [
        _step(plan, item.node, launch_script(item, plan, "manual", hold=hold), item.role)
        for item in plan.launches
    ]
    router = _step(plan, plan.router.node, router_script(plan, "manual", hold=hold), ROUTER)
    return _lines(*head, *_on_exit(plan), *_in_order(plan, body, router), "sleep infinity")


def _name_nodes(interface: str) -> list[str]:
    """Hosts that Slurm gave, and the address each has on the interface of the cluster file."""
    return [
        'mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")',
        "addresses=()",
        'for node in "${nodes[@]}"; do',
        f'  line=$(srun --overlap -N1 -n1 -w "$node" {shlex.join(address_command(interface))})',
        "  line=${line#* inet }",
        '  addresses+=("${line%%/*}")',
        "done",
    ]


def _on_exit(plan: Plan) -> list[str]:
    """scancel ends steps, not containers: a trap removes them, decode side first."""
    if not plan.cluster.detached:
        return ["trap 'jobs -p | xargs -r kill' EXIT TERM INT"]
    stop = [
        f"  srun --overlap -N1 -n1 -w {_host(plan, item.node)} {plan.cluster.runtime} rm -f {item.container}"
        for item in reversed(plan.launches)
    ]
    return ["stop() {", *stop, "}", "trap stop EXIT", "trap 'exit 143' TERM INT"]


def _host(plan: Plan, node: Node) -> str:
    return f'"${{nodes[{ROLES.index(node.role)}]}}"' if plan.cluster.unnamed else node.host


def _step(plan: Plan, node: Node, script: str, role: str) -> str:
    """A step of the batch script; where Slurm chose the nodes their addresses are put in first."""
    end, cluster = f"END_{role.upper()}", plan.cluster
    srun = folded(["srun", "--overlap", "-N1", "-n1", *step_options(cluster)])
    if not cluster.unnamed:
        return f"{srun} -w {node.host} sh -s <<'{end}' &\n{script}{end}"
    names = " ".join(
        f'-e "s/{item.host}/${{addresses[{number}]}}/g"' for number, item in enumerate(cluster.nodes)
    )
    return f"sed {names} <<'{end}' | {srun} -w {_host(plan, node)} sh -s &\n{script}{end}"


def dockerfile(plan: Plan) -> str:
    """An image with the pins of the recipe. Not built by the tests: base image and forks are not mirrored."""
    pins = plan.recipe.sections["pins"]
    pin = {name: str(knob.value) for name, knob in pins.items()}
    vllm, mori, router = (pin[name].partition("@") for name in ("vllm", "mori", "router"))
    minutes, handshake = plan.recipe.get("order", "handshake_minutes"), "HANDSHAKE_TIMEOUT_MINS"
    core = "vllm/v1/engine/core.py"
    return _lines(
        f"FROM {pin['base_image']}",
        *(f"# {name}: {knob.value} ({knob.source}). {knob.why}" for name, knob in pins.items()),
        "WORKDIR /src",
        f"RUN git clone https://github.com/{vllm[0]} vllm && cd vllm && git checkout {vllm[2]} \\",
        "    # A headless worker waits this long for its master; upstream has no variable for it.",
        f"    && sed -i 's/^{handshake} = 5$/{handshake} = {minutes}/' {core} \\",
        f"    && grep -q '^{handshake} = {minutes}$' {core} \\",
        f"    && PYTORCH_ROCM_ARCH={plan.recipe.platform.arch} pip install --no-build-isolation .",
        f"RUN git clone --recursive https://github.com/{mori[0]} mori \\",
        f"    && cd mori && git checkout {mori[2]} \\",
        f"    && MORI_GPU_ARCHS={plan.recipe.platform.arch} pip install --no-build-isolation .",
        f"RUN pip install amd-aiter=={pin['aiter']} flydsl=={pin['flydsl']}",
        f"RUN git clone https://github.com/{router[0]} router \\",
        f"    && cd router && git checkout {router[2]} && pip install .",
        "# A stale lock of the image deadlocks the start of the expert group.",
        "RUN rm -rf /tmp/.mori && find / -xdev -path '*/.mori/jit/*.lock' -delete",
        "WORKDIR /",
    )  # fmt: skip
