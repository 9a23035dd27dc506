"""One read-only script that looks at a node, and the facts in its answer."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field

from k3repro.bringup._cluster import Cluster
from k3repro.bringup._node_status import owners_script

_SECTION = re.compile(r"^==(\w+)==$")


@dataclass(slots=True)
class NodeFacts:
    """What a node said. Sizes in bytes; None or empty where it said nothing."""

    host: str
    error: str = ""
    archs: tuple[str, ...] = ()
    vram_used: tuple[int, ...] = ()
    vram_total: tuple[int, ...] = ()
    rails: dict[str, str] = field(default_factory=dict)
    gids: dict[str, str] = field(default_factory=dict)
    gid_types: dict[str, str] = field(default_factory=dict)
    devices: tuple[str, ...] = ()
    rp_filter: dict[str, str] = field(default_factory=dict)
    routes: tuple[str, ...] = ()
    modules: dict[str, str] = field(default_factory=dict)
    libraries: dict[str, str] = field(default_factory=dict)
    image: str = ""
    config_sha: str = ""
    shards: int | None = None
    shards_wanted: int | None = None
    clock_s: float | None = None
    asked_s: float = 0.0
    answered_s: float = 0.0
    disk_free: dict[str, int] = field(default_factory=dict)
    memlock: str = ""
    root: bool = False
    addresses: dict[str, list[str]] = field(default_factory=dict)
    commands: dict[str, bool] = field(default_factory=dict)
    numa_balancing: str = ""
    render_group: str = ""
    shm: int | None = None
    owners: str = ""

    @property
    def skew_s(self) -> float | None:
        """Clock against this machine's; the true offset lies within `skew_error_s` of it."""
        return None if self.clock_s is None else self.clock_s - (self.asked_s + self.answered_s) / 2

    @property
    def skew_error_s(self) -> float:
        """Half the time between asking and the answer."""
        return (self.answered_s - self.asked_s) / 2


def probe_script(cluster: Cluster, ports: Iterable[int]) -> str:
    """Everything in one round trip. `sysroot` stands before /sys and /proc in a twin's cluster file."""
    q = shlex.quote
    root, model = q(cluster.sysroot) if cluster.sysroot else "''", q(cluster.model)
    gid = cluster.gid
    lines = [
        "set +e", f"R={root}",
        "echo ==arch==",
        "grep -h gfx_target_version $R/sys/class/kfd/kfd/topology/nodes/*/properties 2>/dev/null",
        "echo ==vram==; for d in $R/sys/class/drm/card*/device; do [ -f $d/mem_info_vram_total ] &&"
        " echo $(cat $d/mem_info_vram_used) $(cat $d/mem_info_vram_total); done",
        "echo ==rails==",
        "for d in $R/sys/class/infiniband/*; do [ -e $d ] || continue; n=${d##*/}; p=$d/ports/1",
        f"  echo \"$n|$(cat $p/state 2>/dev/null)|$(cat $p/gids/{gid} 2>/dev/null)"
        f"|$(cat $p/gid_attrs/types/{gid} 2>/dev/null)|$(cat $p/gid_attrs/ndevs/{gid} 2>/dev/null)\"; done",
        "echo ==rp==; for f in $R/proc/sys/net/ipv4/conf/*/rp_filter; do n=${f%/rp_filter};"
        " echo ${n##*/} $(cat $f 2>/dev/null); done",
        "echo ==routes==; ip -4 route show table all 2>/dev/null | head -n 200",
        "echo ==modules==",
        "for m in amdgpu mlx5_core bnxt_re amdgpu_peermem ib_peer_mem nvidia_peermem; do"
        " d=$R/sys/module/$m; [ -d $d ] && echo $m $(cat $d/version 2>/dev/null || echo present); done",
        "echo ==libraries==",
        *(f"if [ -f {q(m.host)} ]; then echo file $(readlink -f {q(m.host)});"
          f" elif [ -d {q(m.host)} ]; then echo folder {q(m.host)}; else echo missing {q(m.host)}; fi"
          for m in cluster.userspace),
        f"echo ==model==; sha256sum {model}/config.json 2>/dev/null | cut -d' ' -f1",
        f"echo shards $(ls {model}/*.safetensors 2>/dev/null | wc -l)",
        f"index={model}/model.safetensors.index.json",
        "echo wanted $(grep -o '[^\"]*\\.safetensors' \"$index\" 2>/dev/null | sort -u | wc -l)",
        f"echo ==disk==; for p in {q(cluster.logs)} {q(cluster.cache)} /tmp; do d=$p;"
        " while [ ! -d \"$d\" ]; do d=$(dirname \"$d\"); done;"
        " echo \"$p\" $(df -PB1 \"$d\" | awk 'NR==2 {print $4}'); done",
        "echo ==addresses==; ip -4 -o addr show 2>/dev/null | awk '{sub(\"/.*\", \"\", $4); print $2, $4}'",
        "echo ==commands==",
        *_commands(cluster),
        "echo ==limits==; echo memlock $(ulimit -l); echo uid $(id -u)",
        "echo numa $(cat $R/proc/sys/kernel/numa_balancing 2>/dev/null)",
        "echo render $(getent group render | cut -d: -f3)",
        "echo shm $(df -PB1 /dev/shm 2>/dev/null | awk 'NR==2 {print $2}')",
    ]  # fmt: skip
    if cluster.detached:
        template = '{{.Id}} {{join .RepoDigests " "}}'
        ask = shlex.join([cluster.runtime, "image", "inspect", "--format", template, cluster.image])
        lines.append(f"echo ==image==; {ask} 2>&1 | head -n 1")
    elif cluster.image.startswith("/"):
        file = q(cluster.image)
        ends = f"{{ head -c 1048576 {file}; tail -c 1048576 {file}; }} | sha256sum | cut -c1-16"
        lines.append(f"echo ==image==; [ ! -f {file} ] || echo file $(stat -Lc %s {file}) $({ends})")
    lines += ["echo ==owners==", owners_script(cluster, ports), "echo ==clock==; date +%s.%N", "true"]
    return "\n".join(lines) + "\n"


def _commands(cluster: Cluster) -> list[str]:
    """Ask for what has to be on the host, after the site's own commands, as scripts do."""
    names = [cluster.runtime] if cluster.runtime in ("docker", "podman", "apptainer") else []
    if cluster.runtime == "process":
        names += [cluster.engine[0], cluster.router[0]]
    if cluster.numa and cluster.runtime in ("apptainer", "process"):
        names.append("numactl")
    asked = [
        f"command -v {shlex.quote(name)} >/dev/null && echo {name} yes || echo {name} no" for name in names
    ]
    if cluster.runtime == "pyxis":
        asked.append("! command -v srun >/dev/null || { srun --help | grep -q container-image; } \\")
        asked.append("  && echo pyxis yes || echo pyxis no")
    return ["(", *cluster.before, *asked, ") 2>/dev/null"]


def read_probe(host: str, out: str, asked_s: float, answered_s: float) -> NodeFacts:
    """Parse the answer of `probe_script`."""
    sections: dict[str, list[str]] = {}
    current: list[str] = []
    for line in out.splitlines():
        if match := _SECTION.match(line):
            current = sections.setdefault(match[1], [])
        elif line.strip():
            current.append(line.strip())
    facts = NodeFacts(host, asked_s=asked_s, answered_s=answered_s)
    _gpus(facts, sections)
    _network(facts, sections)
    _files(facts, sections)
    facts.owners = "\n".join(sections.get("owners", ()))
    clock = sections.get("clock", [""])[0]
    facts.clock_s = float(clock) if re.fullmatch(r"\d+\.\d+", clock) else None
    return facts


def _gpus(facts: NodeFacts, sections: dict[str, list[str]]) -> None:
    versions = [line.split()[-1] for line in sections.get("arch", ())]
    facts.archs = tuple(arch_name(int(text)) for text in versions if text.isdigit() and int(text))
    pairs = [line.split() for line in sections.get("vram", ())]
    pairs = [pair for pair in pairs if len(pair) == 2 and all(text.isdigit() for text in pair)]
    facts.vram_used = tuple(int(pair[0]) for pair in pairs)
    facts.vram_total = tuple(int(pair[1]) for pair in pairs)


def arch_name(version: int) -> str:
    """The gfx name of KFD's number: major, minor and stepping, the last in hexadecimal (90402 is gfx942)."""
    return f"gfx{version // 10000}{version // 100 % 100}{version % 100:x}"


def _network(facts: NodeFacts, sections: dict[str, list[str]]) -> None:
    for line in sections.get("rails", ()):
        name, state, gid, kind, device = (line.split("|") + [""] * 5)[:5]
        facts.rails[name] = state.partition(":")[2].strip() or state
        facts.gids[name], facts.gid_types[name] = gid, kind
        facts.devices += (device,) if device else ()
    facts.rp_filter = {line.split()[0]: line.split()[-1] for line in sections.get("rp", ()) if " " in line}
    facts.routes = tuple(sections.get("routes", ()))


def _files(facts: NodeFacts, sections: dict[str, list[str]]) -> None:
    facts.modules = dict(line.split(None, 1) for line in sections.get("modules", ()) if " " in line)
    for line in sections.get("libraries", ()):
        kind, _, path = line.partition(" ")
        facts.libraries[path] = kind
    for line in sections.get("model", ()):
        word, _, rest = line.partition(" ")
        if word in {"shards", "wanted"} and rest.isdigit():
            setattr(facts, "shards" if word == "shards" else "shards_wanted", int(rest))
        elif re.fullmatch(r"[0-9a-f]{64}", word):
            facts.config_sha = word
    for line in sections.get("disk", ()):
        path, _, free = line.rpartition(" ")
        if free.isdigit():
            facts.disk_free[path] = int(free)
    for line in sections.get("addresses", ()):
        name, _, address = line.partition(" ")
        facts.addresses.setdefault(name, []).append(address)
    for line in sections.get("commands", ()):
        name, _, found = line.rpartition(" ")
        facts.commands[name] = found == "yes"
    for line in sections.get("limits", ()):
        word, _, rest = line.partition(" ")
        if word == "memlock":
            facts.memlock = rest
        elif word == "uid":
            facts.root = rest == "0"
        elif word == "numa":
            facts.numa_balancing = rest
        elif word == "render":
            facts.render_group = rest
        elif word == "shm" and rest.isdigit():
            facts.shm = int(rest)
    image = " ".join(sections.get("image", ()))
    # Podman prints the bare digest where docker names its algorithm.
    facts.image = f"sha256:{image}" if re.match(r"[0-9a-f]{64}\b", image) else image
