"""Rules of a launch: what would come up wrong and silent, or not at all. Each reads the rendered plan.

Outcomes: `deny` (it fails or answers wrongly), `substitutes` (it runs something else than was asked for, and
does not say so), `warn` (it may).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from k3repro.bringup._plan import Launch, Plan
from k3repro.errors import SpecError

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


def check_plan(plan: Plan) -> list[Broken]:
    """Every rule the plan breaks, what denies first.

    Raises:
        SpecError: a flag or variable that a rule reads holds something else than its kind of value.
    """
    from k3repro.bringup import _rules_engine, _rules_memory, _rules_router, _rules_transfer  # noqa: F401

    found = [
        Broken(item.id, item.outcome, what, item.reason, item.fix, item.source)
        for item in RULES.values()
        for what in _broken(item, plan)
    ]
    return sorted(found, key=lambda broken: (OUTCOMES.index(broken.outcome), broken.id, broken.what))


def _broken(item: Rule, plan: Plan) -> list[str]:
    try:
        return list(item.check(plan))
    except (ValueError, TypeError) as error:
        fix = "Look for a flag or variable with a value of another kind: `k3repro bringup plan` prints all."
        where = plan.recipe.where
        raise SpecError(f"rule {item.id} cannot read this plan: {error}", where=where, fix=fix) from None


def number(launch: Launch, flag: str) -> int | None:
    """A flag's value as a whole number; None when absent or not one."""
    text = launch.flag(flag)
    return int(text) if text and re.fullmatch(r"\d+", text) else None
