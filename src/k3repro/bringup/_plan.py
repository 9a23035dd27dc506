"""Rendering: a recipe on a cluster becomes exact commands. Pure: nothing is run, read or looked up here."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from k3repro.bringup._cluster import ROLES, Cluster, Node
from k3repro.bringup._recipe import Recipe
from k3repro.bringup._router import Substitution, substitute
from k3repro.bringup._values import text_of
from k3repro.errors import SpecError

_NAME = re.compile(r"@[a-z_]+(?:\.[a-z_]+)?")
_ASSIGNED = re.compile(r"[A-Za-z_]\w*=")
ROUTER = "router"
SERVE_LABEL = "k3repro.launch"
MARK = "K3REPRO_LAUNCH"
ROUTER_PID = ".router-pid"


@dataclass(frozen=True, slots=True)
class Launch:
    """One engine process or container: where, with which variables, which command line."""

    role: str
    node: Node
    container: str
    env: tuple[tuple[str, str], ...]
    engine: tuple[str, ...]
    log: str

    @property
    def variables(self) -> dict[str, str]:
        """The environment by name."""
        return dict(self.env)

    def flag(self, name: str) -> str | None:
        """The value of an engine flag; "" for a switch, None when it is absent."""
        if name not in self.engine:
            return None
        after = self.engine[self.engine.index(name) + 1 :][:1]
        return after[0] if after and not after[0].startswith("--") else ""

    def values(self, name: str) -> tuple[str, ...]:
        """All values of a flag that takes several."""
        if name not in self.engine:
            return ()
        rest = self.engine[self.engine.index(name) + 1 :]
        stop = next((i for i, item in enumerate(rest) if item.startswith("--")), len(rest))
        return rest[:stop]

    def document(self, name: str) -> dict[str, Any]:
        """The JSON value of a flag; empty when absent or not an object."""
        try:
            value = json.loads(self.flag(name) or "{}")
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}


@dataclass(frozen=True, slots=True)
class RouterLaunch:
    """The router: it runs beside the prefill master, in its container when there is one."""

    node: Node
    argv: tuple[str, ...]
    log: str
    url: str


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything a bring-up will do, in order: workers, masters, router."""

    recipe: Recipe
    cluster: Cluster
    launches: tuple[Launch, ...]
    router: RouterLaunch
    substitutions: tuple[Substitution, ...]

    @property
    def digest(self) -> str:
        """Identity of the commands: another flag, node, variable, image or mount gives another digest."""
        commands: list[Any] = [
            [item.role, item.node.host, item.env, item.engine] for item in self.launches
        ] + [[self.router.argv]]
        if not self.cluster.detached and self.cluster.runtime != "process":
            commands += [inside_image(item.engine, self, item.env, item.node.pool) for item in self.launches]
        if self.cluster.detached:
            commands += [container_argv(item, self, "") for item in self.launches]
        text = json.dumps(commands)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def launch(self, role: str) -> Launch:
        """The launch of a role.

        Raises:
            SpecError: the plan has no such role.
        """
        for launch in self.launches:
            if launch.role == role:
                return launch
        raise SpecError(f"the plan has no role {role!r}")

    def timing(self, name: str) -> float:
        """A time of the recipe's order section, in seconds."""
        return float(self.recipe.get("order", name))


def make_plan(recipe: Recipe, cluster: Cluster, *, router_flags: Iterable[str] | None = None) -> Plan:
    """Render every command of a bring-up.

    `router_flags`: what the router's ``--help`` lists (`router_flags_of`); None takes the pinned fork.

    Raises:
        SpecError: recipe and cluster do not fit, or a knob asks for something nobody can fill in.
    """
    if cluster.overrides:
        recipe = recipe.with_overrides(cluster.overrides)
    names = _common(recipe, cluster)
    launches = tuple(_launch(role, recipe, cluster, names) for role in ROLES)
    node = cluster.node("prefill_master")
    argv, substitutions = substitute(_router_argv(recipe, cluster, names), router_flags)
    port = names["port.router"]
    router = RouterLaunch(node, argv, f"{cluster.logs}/router.log", f"http://{url_host(node.address)}:{port}")
    return Plan(recipe, cluster, launches, router, substitutions)


def url_host(address: str) -> str:
    """An address as it stands in a URL."""
    return f"[{address}]" if ":" in address else address


def _common(recipe: Recipe, cluster: Cluster) -> dict[str, Any]:
    """What a knob may name, whatever the role."""
    layout, container = recipe.layout, cluster.detached
    names: dict[str, Any] = {f"port.{name}": knob.value for name, knob in recipe.sections["ports"].items()}
    for field in ("tp", "dp", "kv_dtype", "block_size", "kv_pool_bytes", "max_model_len", "max_num_seqs",
                  "max_num_batched_tokens", "gpu_memory_utilization", "heap_bytes", "cudagraph"):  # fmt: skip
        names[f"layout.{field}"] = getattr(layout, field)
    names |= {
        "dp_local": recipe.platform.gpus_per_node // layout.tp,
        "platform.arch": recipe.platform.arch,
        "fabric.rails": ",".join(cluster.rails),
        "fabric.interface": cluster.interface,
        "fabric.gid": cluster.gid,
        "router.address": cluster.node("prefill_master").address,
        "mount.model": recipe.get("container", "model") if container else cluster.model,
        "mount.logs": recipe.get("container", "logs") if container else cluster.logs,
    }
    for pool in ("prefill", "decode"):
        names[f"{pool}.master"] = url_host(cluster.node(f"{pool}_master").address)
    return names


def _pool_names(pool: str, recipe: Recipe, cluster: Cluster, names: Mapping[str, Any]) -> dict[str, Any]:
    """The common names, and those of one pool."""
    peer = "decode" if pool == "prefill" else "prefill"
    found = dict(names)
    found["pool.master"] = cluster.node(f"{pool}_master").address
    found["peer.hosts"] = ",".join(node.address for node in cluster.pool(peer))
    cache = recipe.get("container", "cache") if cluster.detached else f"{cluster.cache}/{pool}"
    found["mount.cache"] = cache
    for knob in ("all2all", "cudagraph", "kv_role"):
        found[f"pool.{knob}"] = _fill(recipe.get(f"pool.{pool}", knob), found, recipe.where)
    return found


def _launch(role: str, recipe: Recipe, cluster: Cluster, common: Mapping[str, Any]) -> Launch:
    node = cluster.node(role)
    names = {**_pool_names(node.pool, recipe, cluster, common), "node.address": node.address}
    rank = "master" if node.master else "worker"
    if role in recipe.get("transfer", "roles"):
        names["transfer"] = _transfer(recipe, names)
    sections = ("flags.all", f"flags.{rank}", f"flags.{node.pool}")
    knobs = [(flag, knob.value) for flag, knob in recipe.knobs(*sections)]
    flags = [(flag, value) for flag, value in knobs if value != "@transfer" or "transfer" in names]
    engine = (*cluster.engine, str(names["mount.model"]), *_argv(flags, names, recipe.where))
    env = tuple(
        (name, text_of(_fill(knob.value, names, recipe.where)))
        for name, knob in recipe.knobs("env.all", f"env.{node.pool}")
    )
    return Launch(
        role, node, f"{recipe.container_prefix}{role}", env, engine, f"{cluster.logs}/vllm_{role}.log"
    )


def _transfer(recipe: Recipe, names: Mapping[str, Any]) -> str:
    """The --kv-transfer-config of a role. The recipe writes ports as text and the last three as integers."""
    extra: dict[str, Any] = {}
    for name, knob in recipe.sections["transfer.extra"].items():
        value = _fill(knob.value, names, recipe.where)
        extra[name] = (
            value
            if isinstance(knob.value, (int, float)) and not isinstance(knob.value, bool)
            else text_of(value)
        )
    document = {
        "kv_connector": recipe.get("transfer", "kv_connector"), "kv_role": names["pool.kv_role"],
        "kv_port": str(names["port.kv"]), "kv_connector_extra_config": extra,
    }  # fmt: skip
    return json.dumps(document, separators=(",", ":"))


def _router_argv(recipe: Recipe, cluster: Cluster, names: Mapping[str, Any]) -> tuple[str, ...]:
    flags = [(flag, knob.value) for flag, knob in recipe.knobs("router.flags")]
    return (*cluster.router, *_argv(flags, names, recipe.where))


def _argv(flags: Iterable[tuple[str, Any]], names: Mapping[str, Any], where: str) -> list[str]:
    argv: list[str] = []
    for flag, value in flags:
        if value is False:
            continue
        argv.append(flag)
        if value is not True:
            values = value if isinstance(value, list) else [value]
            argv += [text_of(_fill(item, names, where)) for item in values]
    return argv


def _fill(value: Any, names: Mapping[str, Any], where: str) -> Any:
    """Replace @names. A value that is one name keeps its type."""
    if not isinstance(value, str) or "@" not in value:
        return value
    if value[1:] in names:
        return names[value[1:]]

    def known(match: re.Match[str]) -> str:
        name = match.group()[1:]
        if name not in names:
            fix = f"Known: {', '.join(sorted(names))}."
            raise SpecError(f"nothing is known as @{name}", where=where, fix=fix)
        return text_of(names[name])

    return _NAME.sub(known, value)


def container_argv(launch: Launch, plan: Plan, mark: str) -> tuple[str, ...]:
    """The `docker run` of a role; `mark` labels it, so that only what was started is ever stopped."""
    cluster, recipe = plan.cluster, plan.recipe
    argv = [cluster.runtime, "run", "-d", "--name", launch.container, "--label", f"{SERVE_LABEL}={mark}"]
    argv += [f"--pull={cluster.pull}", *_container_flags(plan)]
    for host, inside, mode in _mounts(launch, plan):
        argv += ["-v", f"{host}:{inside}{mode}"]
    for name, value in launch.env:
        argv += ["-e", f"{name}={value}"]
    inside = f"{recipe.get('container', 'logs')}/vllm_{launch.role}.log"
    command = engine_command((*_bound(cluster), *launch.engine), inside)
    return (*argv, "--entrypoint", "/bin/sh", image_of(cluster), "-c", command)


def _container_flags(plan: Plan) -> list[str]:
    """The recipe's own. Podman refuses --shm-size beside the host's IPC; there docker ignores it."""
    flags = [str(flag) for flag in plan.recipe.get("container", "flags")]
    joint = [flag.partition("=")[0] for flag in flags]
    host = "--ipc=host" in flags or ("--ipc" in flags and flags[flags.index("--ipc") + 1 :][:1] == ["host"])
    if plan.cluster.runtime == "podman" and host and "--shm-size" in joint:
        at = joint.index("--shm-size")
        del flags[at : at + (1 if "=" in flags[at] else 2)]
    return flags


def engine_command(argv: Sequence[str], log: str, before: str = "") -> str:
    """One engine or router as a container's shell runs it: an option a line, its output in the log."""
    return f"{before}exec {folded(argv)} \\\n  > {shlex.quote(log)} 2>&1"


def folded(argv: Sequence[str]) -> str:
    """Words as a shell reads them, every option with its values and every assignment on a line of its own."""
    lines: list[list[str]] = [[]]
    for word in argv:
        if lines[-1] and _begins_line(word, lines[-1]):
            lines.append([])
        lines[-1].append(word)
    return " \\\n  ".join(shlex.join(line) for line in lines)


def _begins_line(word: str, line: Sequence[str]) -> bool:
    """Options and assignments stand on lines of their own, and so does the command after assignments."""
    if word.startswith("-"):
        return not line[-1].endswith("=")
    assigned = _ASSIGNED.match(word) is not None and not line[-1].startswith("-")
    return assigned or _ASSIGNED.match(line[0]) is not None


def _mounts(launch: Launch, plan: Plan) -> list[tuple[str, str, str]]:
    cluster, get = plan.cluster, plan.recipe.get
    mounts = [
        (cluster.model, get("container", "model"), ":ro"),
        (cluster.logs, get("container", "logs"), ""),
        (f"{cluster.cache}/{launch.node.pool}", get("container", "cache"), ""),
    ]
    return mounts + [(mount.host, mount.container, ":ro") for mount in cluster.userspace]


def inside_image(
    argv: Sequence[str], plan: Plan, env: Iterable[tuple[str, str]] = (), pool: str = "prefill"
) -> tuple[str, ...]:
    """A command as a process: under numactl where asked, inside apptainer's image where that runs it.

    In an image the pool's cache is the home: kernels and remote code land there. No --rocm, which would put
    the host's libraries before the image's.
    """
    cluster = plan.cluster
    bound, home = _bound(cluster), f"{cluster.cache}/{pool}"
    if cluster.runtime != "apptainer":
        pairs = [("HOME", home)] if cluster.runtime == "pyxis" else []
        return (*bound, "env", *(f"{name}={value}" for name, value in [*pairs, *env]), *argv)
    image = cluster.image if cluster.image.startswith("/") else f"docker://{image_of(cluster)}"
    words = ["apptainer", "exec", "--cleanenv", "--home", home, "--writable-tmpfs"]
    for host, inside, mode in _same_mounts(cluster):
        words += ["--bind", f"{host}:{inside}{mode}"]
    for name, value in env:
        words += ["--env", f"{name}={value}"]
    return (*bound, *words, image, *argv)


def _bound(cluster: Cluster) -> tuple[str, ...]:
    return ("numactl", *(f"--{part}" for part in cluster.numa.split(";"))) if cluster.numa else ()


def _same_mounts(cluster: Cluster) -> list[tuple[str, str, str]]:
    """Folders at the same place inside and outside: what a process reads and writes has one name."""
    folders = [(cluster.model, cluster.model, ":ro"), (cluster.logs, cluster.logs, "")]
    mounts = [(mount.host, mount.container, ":ro") for mount in cluster.userspace]
    return [*folders, (cluster.cache, cluster.cache, ""), *mounts]


def image_of(cluster: Cluster) -> str:
    """The image reference, by digest where the cluster file has one."""
    by_digest = cluster.digest and "@" not in cluster.image
    return f"{cluster.image}@{cluster.digest}" if by_digest else cluster.image


def router_argv(plan: Plan) -> tuple[str, ...]:
    """The router's command: inside the prefill master's container, or as a process."""
    if not plan.cluster.detached:
        return plan.router.argv
    inside = f"{plan.recipe.get('container', 'logs')}/router.log"
    container = plan.launch("prefill_master").container
    # Its pid inside the container: the router is stopped and looked for alone, before the engine beside it.
    pid = shlex.quote(f"{plan.recipe.get('container', 'logs')}/{ROUTER_PID}")
    command = engine_command(plan.router.argv, inside, f"echo $$ > {pid}; ")
    return (plan.cluster.runtime, "exec", "-d", container, "/bin/sh", "-c", command)
