"""What a router can do, from its own --help, and what the plan does about what it cannot."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_FLAG = re.compile(r"(?<![\w-])--[a-z0-9][a-z0-9-]*")
# Where a flag is missing, something else does its work, or rule router-capability refuses the plan.
_INSTEAD = {
    "--moriio-dp-size": "left out: the engines' pings carry dp_size, the router spreads over the DP ranks",
    "--intra-node-data-parallel-size": "left out: in discovery mode DP ranks come from the pings",
    "--prefill-policy": "left out: --policy applies to both pools",
    "--decode-policy": "left out: --policy applies to both pools",
    "--prefill": "left out: engines register themselves by discovery",
    "--decode": "left out: engines register themselves by discovery",
    "--log-level": "left out: the default level shows registrations",
}
_NOT_LISTED = frozenset({"--prefill", "--decode"})


@dataclass(frozen=True, slots=True)
class Substitution:
    """A documented flag this router lacks or ignores, and what the plan does instead."""

    flag: str
    value: str
    action: str
    fatal: bool = False

    def as_dict(self) -> dict[str, str | bool]:
        """Plain data."""
        return {"flag": self.flag, "value": self.value, "action": self.action, "fatal": self.fatal}


def router_flags_of(help_text: str) -> frozenset[str]:
    """The options a router's ``--help`` lists."""
    return frozenset(_FLAG.findall(help_text))


def substitute(
    argv: tuple[str, ...], available: Iterable[str] | None
) -> tuple[tuple[str, ...], tuple[Substitution, ...]]:
    """`argv` without what the router does not have, and the list of what was changed.

    `available` None means the pinned fork: nothing is changed. The fork hides --prefill and --decode from its
    help, so these two count as missing only when the router lists neither and no fork flag.
    """
    if available is None:
        return argv, ()
    known = frozenset(available)
    fork = "--moriio-dp-size" in known
    kept: list[str] = []
    changed: list[Substitution] = []
    for flag, values in _groups(argv):
        if not flag or flag in known or (flag in _NOT_LISTED and fork):
            kept += [flag, *values] if flag else values
            if flag in {"--prefill", "--decode", "--intra-node-data-parallel-size"} and not fork:
                changed.append(
                    Substitution(flag, " ".join(values), "kept, without effect: discovery decides")
                )
        else:
            action = _INSTEAD.get(flag)
            changed.append(
                Substitution(flag, " ".join(values), action or "this router cannot do it", action is None)
            )
    return tuple(kept), tuple(changed)


def _groups(argv: tuple[str, ...]) -> list[tuple[str, list[str]]]:
    """(flag, its values) in order; what stands before the first flag comes under ""."""
    groups: list[tuple[str, list[str]]] = [("", [])]
    for item in argv:
        if item.startswith("--"):
            groups.append((item, []))
        else:
            groups[-1][1].append(item)
    return groups
