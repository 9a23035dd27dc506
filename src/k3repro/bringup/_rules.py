"""All rules of a launch, registered when this module is imported, and a plan held against them."""

from __future__ import annotations

from k3repro.bringup import (  # noqa: F401
    _rules_engine,
    _rules_field,
    _rules_memory,
    _rules_router,
    _rules_transfer,
)
from k3repro.bringup._plan import Plan
from k3repro.bringup._rule import OUTCOMES, RULES, Broken, Rule
from k3repro.errors import SpecError


def check_plan(plan: Plan) -> list[Broken]:
    """Every rule the plan breaks, denials first.

    Raises:
        SpecError: a flag or variable that a rule reads holds something else than its kind of value.
    """
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
