"""The commands as shell scripts, as executors send them to `sh -s` on a node.

A script is data on standard input, so nothing but `sh -s` is ever an argument of ssh or srun.
"""

from __future__ import annotations

import shlex

from k3repro.bringup._cluster import Cluster
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
        lines += _no_proxy(cluster)
        inside = inside_image(launch.engine, plan, (*launch.env, (MARK, mark)), launch.node.pool)
        argv = ["setsid", *inside]
        return joined(*lines, *_background(argv, launch.log, run_file(cluster, mark), hold))
    # A library that is missing on the host would be mounted as an empty folder: look before docker does.
    for mount in cluster.userspace:
        file = shlex.quote(mount.host)
        lines.append(f"[ -f {file} ] || {{ echo 'k3repro: no regular file' {file} >&2; exit 78; }}")
    return joined(*lines, *_container(container_argv(launch, plan, mark)))


def router_script(plan: Plan, serve: str, *, hold: bool = False) -> str:
    """Start the router beside the prefill master."""
    cluster = plan.cluster
    lines = [*_head(plan, serve, [cluster.logs]), *_keep(plan.router.log)]
    mark = mark_of(serve, ROUTER)
    if not cluster.detached:
        lines += _no_proxy(cluster)
        argv = ["setsid", *inside_image(router_argv(plan), plan, ((MARK, mark),))]
        return joined(*lines, *_background(argv, plan.router.log, run_file(cluster, mark), hold))
    *words, command = router_argv(plan)
    return joined(
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
    return joined(*_before(cluster), ask)


def _before(cluster: Cluster) -> list[str]:
    """Commands of the site: their files read variables that nobody set."""
    if not cluster.before:
        return []
    lines = [
        f"# shellcheck source=/dev/null\n{line}" if line[:2] == ". " else line for line in cluster.before
    ]
    return ["set +u", *lines, "set -u"]


def _head(plan: Plan, serve: str, folders: list[str]) -> list[str]:
    stone = shlex.quote(tombstone(plan.cluster, serve))
    return [
        "set -eu",
        *_before(plan.cluster),
        f"mkdir -p -- {shlex.join(folders)}",
        f"find {shlex.quote(plan.cluster.logs)} -maxdepth 1 -name '.stopped-*' -mmin +1440 -delete",
        f"if [ -e {stone} ]; then echo 'k3repro: this serve was taken down' >&2; exit 75; fi",
    ]


def _keep(log: str) -> list[str]:
    """The log of the serve before stays beside the new one; older ones go."""
    file = shlex.quote(log)
    return [f"[ ! -f {file} ] || mv -f {file} {shlex.quote(log + '.previous')}"]


def _no_proxy(cluster: Cluster) -> list[str]:
    """The nodes are reached directly, whatever proxy the site's environment names."""
    hosts = ",".join(node.address for node in cluster.nodes)
    return [f'no_proxy="${{no_proxy:+$no_proxy,}}{hosts}"; export no_proxy NO_PROXY="$no_proxy"']


def _background(argv: list[str], log: str, run: str, hold: bool) -> list[str]:
    lines = [f"{folded(argv)} \\\n  > {shlex.quote(log)} 2>&1 < /dev/null &", "pid=$!"]
    lines += [f"start=$({_START_TIME})", f'echo "$pid $start" > {shlex.quote(run)}']
    lines.append(f'echo "{STARTED} pid=$pid start=$start"')
    return [*lines, "wait $pid"] if hold else lines


def _container(argv: tuple[str, ...]) -> list[str]:
    """The host's render group goes by its number: the image need not know its name.

    Rootless podman can name no group of the host but keeps the user's, and raises no limit above the user's.
    """
    *words, command = argv
    lines = [*_document("engine", command), "render=$(getent group render | cut -d: -f3)"]
    run, rest = words[:2], words[2:]
    own = '${render:+--group-add "$render"}'
    if run[0] == "podman":
        rest, apart = _apart(rest, ("--group-add", "--ulimit"))
        lines.append(
            f'if [ "$(id -u)" = 0 ]; then set -- {shlex.join(apart)} {own}; '
            "else set -- --group-add keep-groups --ulimit host; fi"
        )
        own = '"$@"'
    lines.append(f'id=$({folded(run)} {own} \\\n  {folded(rest)} "$engine")')
    return [*lines, f'echo "{STARTED} container=$id"']


def _apart(words: list[str], names: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """Words without some options, and those options with their values."""
    rest, apart = list(words), []
    for name in names:
        while name in rest:
            at = rest.index(name)
            apart += rest[at : at + 2]
            del rest[at : at + 2]
    return rest, apart


def _document(name: str, command: str) -> list[str]:
    """A command in a shell variable, word for word."""
    return [f"{name}=$(cat <<'{name.upper()}'", command, name.upper(), ")"]


def joined(*lines: str) -> str:
    """Lines as the text of a script."""
    return "\n".join(lines) + "\n"


def dockerfile(plan: Plan) -> str:
    """An image with the pins of the recipe. Not built by the tests: base image and forks are not mirrored."""
    pins = plan.recipe.sections["pins"]
    pin = {name: str(knob.value) for name, knob in pins.items()}
    vllm, mori, router = (pin[name].partition("@") for name in ("vllm", "mori", "router"))
    minutes, handshake = plan.recipe.get("order", "handshake_minutes"), "HANDSHAKE_TIMEOUT_MINS"
    core = "vllm/v1/engine/core.py"
    return joined(
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
