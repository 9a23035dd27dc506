"""Scripts that look at a node, and what their answers mean: who is there, what runs, what failed first."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from k3repro.bringup._cluster import Cluster, Node
from k3repro.bringup._plan import MARK, ROUTER, ROUTER_PID, SERVE_LABEL
from k3repro.bringup._sanitise import hide
from k3repro.bringup._script import mark_of, run_file
from k3repro.serve.startup import FATAL

# What fabric and sockets print when they give up, besides the engine's own texts.
NODE_FATAL = {
    "port-taken": "ddress already in use",
    "connector-protocol": "hdr.type == MessageType::RegEndpoint",
    "cross-rail": "bnxt_re_resolve_eth_dmac",
    "qp-transition": "ModifyInit2Rtr",
}
PATTERNS = {**FATAL, **NODE_FATAL}
# An error that comes with every start and means nothing here.
HARMLESS = ("Failed to import Triton kernels",)
_ERROR = r"(^|[^A-Za-z])(ERROR|CRITICAL|FATAL)([^A-Za-z]|$)|Traceback \(most recent call last\)|Error:"
_ANSI = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True, slots=True)
class Owner:
    """Something on a node that is not ours to touch: what, and whose."""

    node: str
    what: str
    owner: str


@dataclass(slots=True)
class RoleStatus:
    """What one role looks like now. `first_error` and `fatal` are (line number, text)."""

    role: str
    node: str
    alive: bool = False
    ready: int = 0
    log_bytes: int = 0
    first_error: tuple[int, str] | None = None
    fatal: tuple[int, str] | None = None
    adds: list[str] = field(default_factory=list)

    @property
    def root_cause(self) -> tuple[int, str] | None:
        """The earliest of the two: later lines hide the first failure."""
        found = [item for item in (self.first_error, self.fatal) if item]
        return min(found) if found else None


def _mine(cluster: Cluster, marks: Sequence[str]) -> list[str]:
    """A shell function `mine` that prints the pids started under marks.

    A process counts when it carries the mark, or is in the session whose leader the run file names while that
    leader, if it still lives, has the recorded start time: a pid used again is never touched.
    """
    needles = " ".join(f"-e {shlex.quote(f'{MARK}={mark}')}" for mark in marks)
    files = " ".join(shlex.quote(run_file(cluster, mark)) for mark in marks)
    return [
        "mine() { {",
        f"  grep -lzxF {needles} /proc/[0-9]*/environ 2>/dev/null | cut -d/ -f3",
        f'  for f in {files}; do [ -f "$f" ] && read -r pid start < "$f" || continue',
        "    now=$(sed 's/.*) //' /proc/$pid/stat 2>/dev/null | cut -d' ' -f20)",
        '    [ -z "$now" ] || [ "$now" = "$start" ] || continue',
        '    ps -o pid=,stat= -s "$pid" | while read -r p s; do case $s in Z*) ;; *) echo "$p";; esac; done',
        "  done; } | sort -un; }",
    ]


def status_script(cluster: Cluster, serve: str, roles: Mapping[str, str]) -> str:
    """Look at roles (name -> log path) of one node; output lines are read by `read_status`."""
    fatal = " ".join(f"-e {shlex.quote(text)}" for text in PATTERNS.values())
    harmless = " ".join(f"-e {shlex.quote(text)}" for text in HARMLESS)
    lines = []
    for role, log in roles.items():
        mark, log = mark_of(serve, role), shlex.quote(log)
        lines += [
            *alive_lines(cluster, mark, role),
            f"echo alive {role} $alive",
            f"if [ -f {log} ]; then",
            f"  echo bytes {role} $(wc -c < {log})",
            f"  echo ready {role} $(grep -ac 'Application startup complete' {log})",
            f"  grep -anE -e {shlex.quote(_ERROR)} {log} | grep -avF {harmless} | head -n 1 \\",
            f"    | sed 's/^/error {role} /'",
            f"  grep -anF -m 1 {fatal} {log} | sed 's/^/fatal {role} /'",
        ]
        if role == ROUTER:
            lines.append(
                f"  grep -aoE '(Add|Remove) (Prefill|Decode) .*' {log} | tail -n 40 | sed 's/^/add {role} /'"
            )
        lines.append("fi")
    return "\n".join([*lines, "true"]) + "\n"


def alive_lines(cluster: Cluster, mark: str, role: str) -> list[str]:
    """Shell lines that set `alive`: how many processes or containers run under a mark."""
    if not cluster.detached:
        return [*_mine(cluster, [mark]), "alive=$(mine | wc -l)"]
    return [f"alive=$({_alive(cluster, mark, role)})"]


def _alive(cluster: Cluster, mark: str, role: str) -> str:
    if role == ROUTER:
        return f"{_in_router(cluster, mark.partition(':')[0], '-0')} && echo 1 || echo 0"
    return f"{cluster.runtime} ps -q --filter label={SERVE_LABEL}={mark} | wc -l"


def _in_router(cluster: Cluster, serve: str, signal: str) -> str:
    """Signal the router inside the prefill master's container, by the pid it left in the folder of logs."""
    beside = mark_of(serve, "prefill_master")
    container = f"$({cluster.runtime} ps -q --filter label={SERVE_LABEL}={beside})"
    pid = f"$(cat {shlex.quote(f'{cluster.logs}/{ROUTER_PID}')} 2>/dev/null)"
    return f'{cluster.runtime} exec {container} /bin/sh -c "kill {signal} {pid}" >/dev/null 2>&1'


def read_status(node: Node, out: str) -> dict[str, RoleStatus]:
    """Parse the answer of `status_script`."""
    found: dict[str, RoleStatus] = {}
    for line in out.splitlines():
        kind, _, rest = line.partition(" ")
        role, _, text = rest.partition(" ")
        if not role or kind not in {"alive", "bytes", "ready", "error", "fatal", "add"}:
            continue
        status = found.setdefault(role, RoleStatus(role, node.host))
        if kind == "alive":
            status.alive = text.strip() not in {"", "0"}
        elif kind in {"bytes", "ready"}:
            setattr(status, "log_bytes" if kind == "bytes" else "ready", int(text.strip() or 0))
        elif kind == "add":
            status.adds.append(_ANSI.sub("", text))
        else:
            number, _, message = text.partition(":")
            pair = (int(number) if number.isdigit() else 0, hide(_ANSI.sub("", message).strip())[:300])
            setattr(status, "first_error" if kind == "error" else "fatal", pair)
    return found


def fatal_name(text: str) -> str:
    """The name of a fatal pattern that a line matches; "error" for any other."""
    return next((name for name, pattern in PATTERNS.items() if pattern in text), "error")


def registered(adds: Sequence[str]) -> dict[str, set[str]]:
    """Which workers the router knows now, from its Add and Remove lines in order."""
    known: dict[str, set[str]] = {"Prefill": set(), "Decode": set()}
    for line in adds:
        match = re.match(r"(Add|Remove) (Prefill|Decode) \[HTTP:([^,\]]+)", line)
        if match:
            (known[match[2]].add if match[1] == "Add" else known[match[2]].discard)(match[3])
    return known


def owners_script(cluster: Cluster, ports: Iterable[int]) -> str:
    """Who holds these ports, the GPUs, or marks of any serve on a node; read by `read_owners`."""
    wanted = " ".join(str(port) for port in ports)
    root = shlex.quote(cluster.sysroot) if cluster.sysroot else "''"
    lines = [
        f"R={root}",
        "ss -ltnpH 2>/dev/null | while read -r state a b local rest; do",
        "  port=${local##*:}",
        f'  for p in {wanted}; do [ "$port" = "$p" ] && echo "port $local $rest"; done',
        "done",
        f"grep -zHa '^{MARK}=' /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' \\",
        f"  | sed -n 's#^/proc/\\([0-9]*\\)/environ:{MARK}=#mark \\1 #p'",
        'for d in $R/sys/class/kfd/kfd/proc/[0-9]*; do [ -e "$d" ] || continue; p=${d##*/};',
        "  echo gpu $p $(ps -o user=,comm= -p $p 2>/dev/null); done",
    ]
    runs = shlex.quote(cluster.logs)
    lines += [
        f'for f in {runs}/.run-*; do [ -f "$f" ] && read -r pid start < "$f" || continue',
        "  now=$(sed 's/.*) //' /proc/$pid/stat 2>/dev/null | cut -d' ' -f20)",
        '  [ "$now" = "$start" ] && echo "mark $pid ${f##*/.run-}"; done',
    ]
    if cluster.detached:
        # inspect, because docker and podman print labels of `ps` in different words.
        ask = shlex.join(
            [
                cluster.runtime,
                "inspect",
                "--format",
                f'{{{{.Name}}}} {{{{index .Config.Labels "{SERVE_LABEL}"}}}}',
            ]
        )
        lines.append(
            f"ids=$({cluster.runtime} ps -aq); [ -z \"$ids\" ] || {ask} $ids | sed 's#^/*#container #'"
        )
    return "\n".join([*lines, "true"]) + "\n"


def read_owners(node: Node, out: str, *, serve: str = "", prefix: str = "") -> list[Owner]:
    """What is on the node and does not belong to `serve`. A listener on another address does not count."""
    found = []
    for line in out.splitlines():
        kind, _, rest = line.partition(" ")
        first, _, more = rest.partition(" ")
        if kind == "port":
            host, _, port = first.rpartition(":")
            if host.strip("[]") in {node.address, "*", "0.0.0.0", "::", ""}:
                found.append(Owner(node.host, f"port {port}", _holder(more)))
        elif kind == "mark" and more and not (serve and more.startswith(f"{serve}:")):
            found.append(Owner(node.host, f"serve {more}", f"pid {first}"))
        elif kind == "gpu":
            found.append(Owner(node.host, "GPU in use", f"pid {first} {more}".strip()))
        elif (
            kind == "container"
            and (more or (prefix and first.startswith(prefix)))
            and not (serve and more.startswith(f"{serve}:"))
        ):
            found.append(Owner(node.host, f"container {first}", more or "started by hand"))
    return found


def summary(owners: Iterable[Owner]) -> list[str]:
    """One line per node and owner; its ports together."""
    lines: list[str] = []
    ports: dict[tuple[str, str], list[int]] = {}
    for owner in owners:
        word, _, rest = owner.what.partition(" ")
        if word == "port" and rest.isdigit():
            ports.setdefault((owner.node, owner.owner), []).append(int(rest))
        else:
            lines.append(f"{owner.node}: {owner.what} ({owner.owner})")
    for (node, owner_name), found in ports.items():
        listed = sorted(set(found))
        text = ", ".join(map(str, listed[:4])) + (f" and {len(listed) - 4} more" if len(listed) > 4 else "")
        lines.append(f"{node}: port {text} ({owner_name})")
    return lines


def _holder(text: str) -> str:
    match = re.search(r'\(\("([^"]+)",pid=(\d+)', text)
    return f"{match[1]} pid {match[2]}" if match else "another user's process"


def stop_script(cluster: Cluster, serve: str, roles: Sequence[str], grace_s: float, stone: str) -> str:
    """Stop roles by their mark: TERM, wait, KILL. Prints how many were killed; leaves the stone, if any."""
    marks = [mark_of(serve, role) for role in roles]
    lines = ["set -u"]
    lines += [f"mkdir -p -- {shlex.quote(cluster.logs)} && : > {shlex.quote(stone)}"] if stone else []
    lines += [
        *_mine(cluster, marks),
        'hit() { for p in $(mine); do kill -"$1" "$p" 2>/dev/null || true; done; }',
    ]
    if cluster.detached:
        grace = max(1, round(grace_s))
        if ROUTER in roles:
            lines += _stop_router(cluster, serve, round(grace_s / 0.2))
        for role in roles:
            label = f"label={SERVE_LABEL}={mark_of(serve, role)}"
            lines += [
                f"for c in $({cluster.runtime} ps -aq --filter {label}); do",
                f"  {cluster.runtime} stop -t {grace} $c >/dev/null",
                f"  {cluster.runtime} rm -f $c >/dev/null; done",
            ]
    polls = max(1, round(grace_s / 0.2))
    lines += [
        "hit TERM; n=0",
        f'while [ -n "$(mine)" ] && [ $n -lt {polls} ]; do sleep 0.2; n=$((n + 1)); done',
        'left=$(mine | wc -l); [ "$left" -eq 0 ] || hit KILL',
        'n=0; while [ -n "$(mine)" ] && [ $n -lt 50 ]; do sleep 0.1; hit KILL; n=$((n + 1)); done',
        "rest=$(mine | wc -l)",
        f'[ "$rest" -ne 0 ] || rm -f -- {" ".join(shlex.quote(run_file(cluster, mark)) for mark in marks)}',
        "echo killed $left left $rest",
    ]
    return "\n".join(lines) + "\n"


def _stop_router(cluster: Cluster, serve: str, polls: int) -> list[str]:
    here, term, kill = (_in_router(cluster, serve, signal) for signal in ("-0", "-TERM", "-KILL"))
    return [
        f"if {here}; then {term}; n=0",
        f"  while {here} && [ $n -lt {max(1, polls)} ]; do sleep 0.2; n=$((n + 1)); done",
        f"  {kill}; fi; rm -f -- {shlex.quote(f'{cluster.logs}/{ROUTER_PID}')}",
    ]
