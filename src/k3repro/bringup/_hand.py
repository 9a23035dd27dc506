"""What `bringup plan --write` gives: a script per role, the whole order over ssh and its end, a batch job."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from k3repro.bringup._batch import batch_job
from k3repro.bringup._cluster import ROLES
from k3repro.bringup._node_status import alive_lines, stop_script
from k3repro.bringup._order import LAST_WORDS, in_order
from k3repro.bringup._plan import ROUTER, Plan
from k3repro.bringup._script import dockerfile, joined, launch_script, mark_of, router_script

BY_HAND = "manual"
"""The serve of what these scripts start over ssh."""
_REVERSE = (ROUTER, "decode_master", "prefill_master", "decode_worker", "prefill_worker")


def hand_scripts(plan: Plan, denied: Sequence[str] = ()) -> dict[str, str]:
    """File name -> text. Roles one by one only where the nodes are named; `denied` stands on top of each."""
    files = {"serve.sbatch": batch_job(plan), "Dockerfile": dockerfile(plan)}
    if not plan.cluster.unnamed:
        for index, launch in enumerate(plan.launches, start=1):
            files[f"{index}0-{launch.role}.sh"] = f"#!/bin/sh\n{launch_script(launch, plan, BY_HAND)}"
        files["50-router.sh"] = f"#!/bin/sh\n{router_script(plan, BY_HAND)}"
        files["run-over-ssh.sh"] = _over_ssh(plan)
        files["stop.sh"] = _stop(plan)
    marks = "".join(f"# DENIED: {line}\n" for line in denied)
    return {name: _below_first_line(text, marks) for name, text in sorted(files.items())}


def _below_first_line(text: str, marks: str) -> str:
    first, _, rest = text.partition("\n")
    return f"{first}\n{marks}{rest}"


def _ssh(plan: Plan, role: str) -> str:
    cluster = plan.cluster
    words = ["ssh", *(["-p", str(cluster.port)] if cluster.port != 22 else [])]
    words += ["-i", cluster.identity] if cluster.identity else []
    words += ["-o", f"UserKnownHostsFile={cluster.known_hosts}"] if cluster.known_hosts else []
    user = f"{cluster.user}@" if cluster.user else ""
    node = plan.router.node if role == ROUTER else cluster.node(role)
    return f"{shlex.join([*words, user + node.address])} sh -s"


def _over_ssh(plan: Plan) -> str:
    def start(role: str, file: str) -> str:
        return f'{_ssh(plan, role)} < {file}\nstarted="$started {role}"'

    roles = [start(role, f"{index}0-{role}.sh") for index, role in enumerate(ROLES, start=1)]
    head = ["#!/bin/sh", "# Workers, masters, then the router. stop.sh ends all of it.", "set -eu"]
    order = in_order(plan, roles, start(ROUTER, "50-router.sh"))
    return joined(*head, 'cd "$(dirname "$0")"', "started=", *_look(plan), *order)


def _look(plan: Plan) -> list[str]:
    """A shell function that ends the script when a role that was started is gone; ssh itself may fail."""
    logs = {item.role: item.log for item in plan.launches} | {ROUTER: plan.router.log}
    lines = [
        "gone() {",
        '  [ "$1" = 255 ] || { echo "k3repro: $2 has ended; sh stop.sh ends the others" >&2; exit 1; }',
        "}",
        "look() {",
    ]
    for role, log in logs.items():
        lines += [
            f"  case $started in *{role}*) {_ssh(plan, role)} <<'END' || gone $? {role} ;; esac",
            *alive_lines(plan.cluster, mark_of(BY_HAND, role), role),
            f'[ "$alive" = 0 ] || exit 0\nset -- {shlex.quote(log)}\n{LAST_WORDS}exit 1',
            "END",
        ]
    return [*lines, "}"]


def _stop(plan: Plan) -> str:
    """Every role over ssh, in reverse order; one node that does not answer keeps no other from it."""
    lines = ["#!/bin/sh", "# Ends what run-over-ssh.sh started, in reverse order.", "failed=0"]
    for role in _REVERSE:
        script = stop_script(plan.cluster, BY_HAND, [role], plan.timing("grace_s"), "")
        lines.append(f"echo {role}\n{_ssh(plan, role)} <<'END' || failed=1\n{script}END")
    return joined(*lines, "exit $failed")
