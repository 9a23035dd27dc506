"""Checks of what a site provides: addresses, commands, limits, the image."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Mapping

from k3repro.bringup._doctor import BAD, GOOD, UNKNOWN, Judged, check
from k3repro.bringup._plan import Plan
from k3repro.bringup._probe_node import NodeFacts


@check("address")
def _address(facts: NodeFacts, plan: Plan, _: Mapping[str, NodeFacts]) -> Judged:
    """Gloo and MoRI bind to [fabric] interface, engines and router to the node's address."""
    interface = plan.cluster.interface
    if not facts.addresses:
        return UNKNOWN, "ip says nothing", "Install iproute2."
    if not facts.addresses.get(interface):
        have = ", ".join(sorted(facts.addresses))
        return BAD, f"no IPv4 address on {interface}", f"Set [fabric] interface to one of {have}."
    told = next(node.address for node in plan.cluster.nodes if node.host == facts.host)
    here = {item for found in facts.addresses.values() for item in found}
    if _is_address(told) and told not in here:
        fix = f"[nodes] address of this node; {interface} has {facts.addresses[interface][0]}."
        return BAD, f"{told} is not this node's", fix
    return GOOD, f"{interface} {facts.addresses[interface][0]}", ""


def _is_address(text: str) -> bool:
    try:
        return ipaddress.ip_address(text).version == 4
    except ValueError:
        return False


@check("commands")
def _commands(facts: NodeFacts, _: Plan, __: Mapping[str, NodeFacts]) -> Judged:
    """Runtime, engine and router, the plug-in of Slurm and numactl, as far as they have to be on the host."""
    missing = [name for name, found in facts.commands.items() if not found]
    if missing:
        return BAD, f"no {', '.join(missing)}", "Install it, or load its module in [container] before."
    return GOOD, ", ".join(facts.commands) or "none needed", ""


@check("memlock")
def _memlock(facts: NodeFacts, plan: Plan, _: Mapping[str, NodeFacts]) -> Judged:
    flags = " ".join(map(str, plan.recipe.get("container", "flags")))
    if plan.cluster.detached and "memlock=-1" in flags and (plan.cluster.runtime == "docker" or facts.root):
        return GOOD, "raised by the container's own limit", ""
    good = facts.memlock == "unlimited"
    fix = "Set memlock unlimited: limits.conf over ssh, LimitMEMLOCK=infinity in slurmd's unit under Slurm."
    return (GOOD if good else BAD), facts.memlock or "unknown", "" if good else fix


@check("render-group")
def _render(facts: NodeFacts, _: Plan, __: Mapping[str, NodeFacts]) -> Judged:
    if facts.render_group:
        return GOOD, f"group {facts.render_group}", ""
    return UNKNOWN, "no group named render", "GPU devices may belong to video alone: ls -l /dev/dri."


@check("image")
def _image(facts: NodeFacts, plan: Plan, everybody: Mapping[str, NodeFacts]) -> Judged:
    """By digest in a daemon's store; a .sif or .sqsh by its size and its first and last MiB."""
    by_file = plan.cluster.image.startswith("/")
    if not facts.image.startswith("file " if by_file else "sha256:"):
        where = "Put the file there, or correct" if by_file else "Pull or load"
        return BAD, facts.image[:80] or "absent", f"{where} {plan.cluster.image} on this node."
    if plan.cluster.digest and not by_file and plan.cluster.digest not in facts.image:
        return BAD, facts.image[:19], "Not the digest of the cluster file: pull it by digest."
    usual, _ = Counter(item.image for item in everybody.values() if item.image).most_common(1)[0]
    seen = facts.image.partition(" ")[2] if by_file else facts.image[7:19]
    good = facts.image == usual
    return (GOOD if good else BAD), seen, "" if good else "Another image than the other nodes."
