"""A cluster file: which node plays which role, its fabric, container, paths and scheduler."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from k3repro.bringup import _sanitise
from k3repro.errors import SpecError
from k3repro.toml import parse_toml, read_toml

ROLES = ("prefill_worker", "decode_worker", "prefill_master", "decode_master")
SCHEDULERS = ("local", "ssh", "slurm")
RUNTIMES = ("docker", "podman", "apptainer", "pyxis", "process")
PULLS = ("never", "missing", "always")
_PLACEHOLDER = "k3-node-"


@dataclass(frozen=True, slots=True)
class Node:
    """One machine: the role it plays, the name ssh or Slurm knows it by, its management address."""

    role: str
    host: str
    address: str

    @property
    def pool(self) -> str:
        """ "prefill" or "decode"."""
        return self.role.partition("_")[0]

    @property
    def master(self) -> bool:
        """Whether the pool's API servers run here."""
        return self.role.endswith("_master")


@dataclass(frozen=True, slots=True)
class Mount:
    """A host library put over the image's."""

    host: str
    container: str


@dataclass(frozen=True, slots=True)
class Cluster:
    """A parsed cluster file. Keys are described in docs/bringup.md."""

    name: str
    recipe: str
    scheduler: str
    nodes: tuple[Node, ...]
    fabric_kind: str
    rails: tuple[str, ...]
    interface: str
    gid: int
    runtime: str
    model: str
    logs: str
    cache: str
    image: str = ""
    digest: str = ""
    userspace: tuple[Mount, ...] = ()
    engine: tuple[str, ...] = ("vllm", "serve")
    router: tuple[str, ...] = ("vllm-router",)
    user: str = ""
    port: int = 22
    known_hosts: str = ""
    identity: str = ""
    job: str = ""
    partition: str = ""
    account: str = ""
    qos: str = ""
    reservation: str = ""
    memory: str = "0"
    gres: str = ""
    output: str = ""
    options: tuple[str, ...] = ()
    time_minutes: int = 480
    before: tuple[str, ...] = ()
    numa: str = ""
    pull: str = "never"
    simulated: bool = False
    sysroot: str = ""
    overrides: Mapping[str, Any] = field(default_factory=dict)
    where: str = ""

    @property
    def detached(self) -> bool:
        """Whether a daemon or supervisor keeps the containers, so that they outlive what started them."""
        return self.runtime in ("docker", "podman")

    @property
    def unnamed(self) -> bool:
        """Whether Slurm has yet to say which nodes play the roles."""
        return all(node.host.startswith(_PLACEHOLDER) for node in self.nodes)

    def node(self, role: str) -> Node:
        """The node that plays a role."""
        return next(node for node in self.nodes if node.role == role)

    def pool(self, pool: str) -> tuple[Node, ...]:
        """Master, then worker of a pool."""
        return self.node(f"{pool}_master"), self.node(f"{pool}_worker")


_SLURM = (
    *("job", "partition", "account", "qos", "reservation"),
    *("memory", "gres", "output", "options", "time_minutes"),
)
_CONTAINER = ("runtime", "image", "digest", "engine", "router", "before", "numa", "pull")
_KEYS: dict[str, dict[str, str]] = {
    # section -> key in the file -> field
    "ssh": {"user": "user", "port": "port", "known_hosts": "known_hosts", "identity": "identity"},
    "slurm": {key: key for key in _SLURM},
    "fabric": {"kind": "fabric_kind"} | {key: key for key in ("rails", "interface", "gid", "userspace")},
    "container": {key: key for key in _CONTAINER},
    "paths": {"model": "model", "logs": "logs", "cache": "cache"},
    "twin": {"simulated": "simulated", "sysroot": "sysroot"},
}  # fmt: skip
CLUSTER_KEYS = ("name", "recipe", "scheduler", "nodes", "recipe_overrides", *_KEYS)


def load_cluster(path: str | Path) -> Cluster:
    """Read a cluster file, or one of `pipelines/clusters` by name.

    Raises:
        SpecError: no such file, bad TOML, an unknown key, or a value that could be misread by a shell.
    """
    file = Path(path)
    if not file.is_file() and file.suffix != ".toml":
        file = find_pipelines() / "clusters" / f"{path}.toml"
    if not file.is_file():
        raise SpecError("no such cluster file", where=str(path), fix="See pipelines/clusters for examples.")
    return cluster_of(read_toml(file, where=str(path), error=SpecError), str(path))


def find_pipelines() -> Path:
    """The nearest `pipelines/` upward of the working directory, else that of the checkout or installation."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / "pipelines" / "recipes").is_dir():
            return folder / "pipelines"
    checkout = Path(__file__).parents[3] / "pipelines"
    return checkout if checkout.is_dir() else Path(sys.prefix) / "share" / "k3repro" / "pipelines"


def parse_cluster(text: str, where: str) -> Cluster:
    """Parse a cluster file; see `load_cluster`.

    Raises:
        SpecError: no TOML, or not what a cluster file holds.
    """
    return cluster_of(parse_toml(text, where, error=SpecError), where)


def cluster_of(raw: Mapping[str, Any], where: str) -> Cluster:
    """The cluster of a parsed document.

    Raises:
        SpecError: see `load_cluster`.
    """
    _known(raw, CLUSTER_KEYS, where)
    fields: dict[str, Any] = {}
    for section, keys in _KEYS.items():
        values = raw.get(section, {})
        if not isinstance(values, dict):
            raise SpecError(f"[{section}] is not a section", where=where)
        _known(values, tuple(keys), f"{where}: [{section}]")
        fields |= {keys[key]: value for key, value in values.items()}
    if not isinstance(raw.get("recipe_overrides", {}), dict):
        raise SpecError("[recipe_overrides] is not a section", where=where)
    nodes = _nodes(raw.get("nodes"), where)
    named = {key: raw.get(key, "") for key in ("name", "recipe", "scheduler")}
    try:
        cluster = Cluster(
            nodes=nodes, overrides=raw.get("recipe_overrides", {}), where=where,
            **named, **_frozen(fields, where),
        )  # fmt: skip
    except TypeError as error:
        raise SpecError(f"fields do not make a cluster: {error}", where=where) from None
    _check(cluster)
    return cluster


def _known(values: Mapping[str, Any], keys: tuple[str, ...], where: str) -> None:
    if unknown := sorted(set(values) - set(keys)):
        raise SpecError(f"unknown key {', '.join(unknown)}", where=where, fix=f"Known: {', '.join(keys)}.")


def with_hosts(text: str, hosts: Sequence[tuple[str, str]]) -> str:
    """The text of a cluster file that only counts its nodes, with the hosts and addresses Slurm gave it.

    Raises:
        SpecError: another number of hosts than roles.
    """
    if len(hosts) != len(ROLES):
        raise SpecError(f"{len(hosts)} nodes for {len(ROLES)} roles", fix="Ask for exactly four.")
    lines = [
        f'{role} = {{ host = "{host}", address = "{address}" }}'
        for role, (host, address) in zip(ROLES, hosts, strict=True)
    ]
    return re.sub(r"(?m)^\s*count\s*=\s*\d+.*$", "\n".join(lines), text, count=1)


def _nodes(raw: Any, where: str) -> tuple[Node, ...]:
    if raw == {"count": len(ROLES)}:
        names = [f"{_PLACEHOLDER}{number}" for number in range(len(ROLES))]
        return tuple(Node(role, name, name) for role, name in zip(ROLES, names, strict=True))
    if not isinstance(raw, dict) or set(raw) != set(ROLES):
        fix = f"Name exactly {', '.join(ROLES)}, each {{ host = ..., address = ... }}, or count = 4."
        raise SpecError("[nodes] does not name the four roles", where=where, fix=fix)
    found = []
    for role in ROLES:
        spot, entry = f"{where}: nodes.{role}", raw[role]
        if not isinstance(entry, dict) or set(entry) != {"host", "address"}:
            raise SpecError("a node is { host = ..., address = ... }", where=spot)
        found.append(
            Node(role, _sanitise.host_name(entry["host"], spot), _sanitise.address(entry["address"], spot))
        )
    for what in ("host", "address"):
        values = [getattr(node, what) for node in found]
        if len(set(values)) != len(values):
            raise SpecError(f"two roles share one {what}", where=where, fix="Each role needs its own node.")
    return tuple(found)


def _frozen(fields: dict[str, Any], where: str) -> dict[str, Any]:
    for key in ("rails", "engine", "router", "before", "options"):
        if key in fields:
            if not isinstance(fields[key], list) or not all(isinstance(item, str) for item in fields[key]):
                raise SpecError(f"{key} is not a list of text", where=where)
            if not all(item.isprintable() for item in fields[key]):
                raise SpecError(f"{key} holds more than one line", where=where)
            fields[key] = tuple(fields[key])
            if not fields[key] and key not in ("rails", "before", "options"):
                raise SpecError(f"{key} names no command", where=where)
    for key in ("image", "digest", "memory", "gres", "output", "numa", "pull"):
        if not isinstance(fields.get(key, ""), str):
            raise SpecError(f"{key} is not text", where=where)
    if not isinstance(fields.get("simulated", False), bool):
        raise SpecError("simulated is not true or false", where=where)
    mounts = fields.get("userspace", [])
    try:
        fields["userspace"] = tuple(Mount(**mount) for mount in mounts)
    except TypeError:
        raise SpecError("userspace entries are { host = ..., container = ... }", where=where) from None
    return fields


def _check(cluster: Cluster) -> None:
    where = cluster.where
    given = (("engine", cluster.engine), ("router", cluster.router), ("before", cluster.before),
             ("image", (cluster.image,)))  # fmt: skip
    for what, words in given:
        for word in words:
            _sanitise.no_secret(
                word.partition("=")[0] if "=" in word else "", word, f"{where}: container.{what}"
            )
    for what in ("name", "recipe", "interface", "fabric_kind"):
        _sanitise.host_name(getattr(cluster, what), f"{where}: {what}")
    for what in ("user", "job", "partition", "account", "qos", "reservation"):
        if getattr(cluster, what) != "":
            _sanitise.host_name(getattr(cluster, what), f"{where}: {what}")
    for rail in cluster.rails:
        _sanitise.host_name(rail, f"{where}: fabric.rails")
    optional = [(what, getattr(cluster, what)) for what in ("known_hosts", "identity", "sysroot")]
    required = [(what, getattr(cluster, what)) for what in ("model", "logs", "cache")]
    for what, value in [*required, *(pair for pair in optional if pair[1] != "")]:
        _sanitise.path(value, f"{where}: {what}")
    if set(cluster.sysroot) & set(" '"):
        raise SpecError(f"{cluster.sysroot!r} has spaces or quotes", where=f"{where}: sysroot")
    for mount in cluster.userspace:
        for value in (mount.host, mount.container):
            _sanitise.path(value, f"{where}: fabric.userspace")
    _choice("scheduler", cluster.scheduler, SCHEDULERS, where)
    _choice("runtime", cluster.runtime, RUNTIMES, where)
    _choice("pull", cluster.pull, PULLS, where)
    _check_slurm(cluster)
    if cluster.runtime in ("apptainer", "pyxis") and cluster.image.startswith("/"):
        _sanitise.path(cluster.image, f"{where}: container.image")
    elif cluster.runtime != "process" or cluster.image:
        _sanitise.image(cluster.image, f"{where}: container.image")
    if cluster.digest:
        _sanitise.image(f"image@{cluster.digest}", f"{where}: container.digest")
    for what, low, high in (
        ("port", 1, 65535),
        ("gid", 0, 255),
        ("time_minutes", 1, 10**6),
    ):
        value = getattr(cluster, what)
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise SpecError(
                f"{what} is {value!r}", where=where, fix=f"Give a whole number from {low} to {high}."
            )


_EXAMPLES = {
    "memory": "0 for all of a node, or 512G",
    "gres": "gpu:8 or gpu:mi300x:8",
    "numa": "interleave=all: options of numactl without their dashes, ; between",
}


def _check_slurm(cluster: Cluster) -> None:
    """What stands in options of salloc, sbatch and srun, and what only a Slurm allocation can do."""
    where = cluster.where
    for what, shape in (
        ("memory", r"\d+[KMGT]?"),
        ("gres", r"none|[A-Za-z0-9_:.,-]+"),
        ("numa", r"[a-z]+(=[a-z0-9,+!:.-]+)?(;[a-z]+(=[a-z0-9,+!:.-]+)?)*"),
    ):
        value = getattr(cluster, what)
        if value and not re.fullmatch(shape, value):
            fix = f"For example {_EXAMPLES[what]}."
            raise SpecError(f"{value!r} is not a value of {what}", where=where, fix=fix)
    if cluster.output and not re.fullmatch(r"[A-Za-z0-9_./%+-]+", cluster.output):
        raise SpecError(f"{cluster.output!r} is not a file name for Slurm", where=f"{where}: slurm.output")
    for option in cluster.options:
        _sanitise.slurm_option(option, f"{where}: slurm.options")
    for line in cluster.before:
        if not line.isprintable() or not line.strip():
            raise SpecError(f"{line!r} is not one line of a shell", where=f"{where}: container.before")
    if cluster.scheduler != "slurm":
        if cluster.runtime == "pyxis":
            raise SpecError("pyxis is a plug-in of Slurm", where=where, fix='Set scheduler = "slurm".')
        if cluster.unnamed:
            raise SpecError("only Slurm can choose the nodes", where=where, fix="Name the four in [nodes].")


def _choice(what: str, value: str, known: tuple[str, ...], where: str) -> None:
    if value not in known:
        raise SpecError(f"{what} {value!r} is not known", where=where, fix=f"Known: {', '.join(known)}.")
