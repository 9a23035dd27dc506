"""A rule of a launch, and the table that every rule registers in. Each reads the rendered plan.

Outcomes: `deny` (it fails or answers wrongly), `substitutes` (it runs something else than was asked for, and
does not say so), `warn` (it may).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from k3repro.bringup._plan import Launch, Plan

Check = Callable[[Plan], Iterator[str]]
OUTCOMES = ("deny", "substitutes", "warn")


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: its name, what happens when it is broken, why, the fix, who says so."""

    id: str
    outcome: str
    reason: str
    fix: str
    source: str
    check: Check


@dataclass(frozen=True, slots=True)
class Broken:
    """A rule that a plan breaks, and where."""

    id: str
    outcome: str
    what: str
    reason: str
    fix: str
    source: str


RULES: dict[str, Rule] = {}


def rule(name: str, outcome: str, *, reason: str, fix: str, source: str) -> Callable[[Check], Check]:
    """Register a check under a name."""

    def register(check: Check) -> Check:
        assert name not in RULES and outcome in OUTCOMES
        RULES[name] = Rule(name, outcome, reason, fix, source, check)
        return check

    return register


def number(launch: Launch, flag: str) -> int | None:
    """A flag's value as a whole number; None when absent or not one."""
    text = launch.flag(flag)
    return int(text) if text and re.fullmatch(r"\d+", text) else None
