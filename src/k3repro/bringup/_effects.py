"""What an override changes: one that changes nothing is refused, because its writer expects something."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from k3repro.bringup._cluster import Cluster
from k3repro.bringup._hand import hand_scripts
from k3repro.bringup._plan import Plan, make_plan
from k3repro.bringup._recipe import Recipe
from k3repro.bringup._rules import check_plan
from k3repro.errors import SpecError

# Read while a bring-up runs, or by rules, and in no command.
_READ_LATER = ("order.", "memory.", "pins.")
_INSTEAD = {
    "layout.prefix_caching": "flags.all.--no-enable-prefix-caching = null, or --enable-prefix-caching = true",
    "layout.engine_version": "pins.engine_version",
}


def refuse_without_effect(recipe: Recipe, overrides: Mapping[str, Any], cluster: Cluster) -> None:
    """Hold each override against the plan without it.

    Raises:
        SpecError: naming the override that neither a command, a script nor a rule notices, or that would
            part a command from the layout or port which summary, rules and router read.
    """
    for key in overrides:
        if owner := _owner(recipe, key):
            fix = f"Set {owner}: both pools, the router, the summary and the rules follow it."
            raise SpecError(f"{key} is filled in from {owner}", where=recipe.where, fix=fix)
    whole = _fingerprint(recipe.with_overrides(overrides), cluster)
    for key, value in overrides.items():
        if key.startswith(_READ_LATER) or _as_before(recipe, key, value):
            continue
        without = {name: other for name, other in overrides.items() if name != key}
        if _fingerprint(recipe.with_overrides(without), cluster) == whole:
            said = f"{key} = {value!r} changes nothing in this plan"
            fix = f"Set {_INSTEAD[key]}." if key in _INSTEAD else "Look for what reads it: `plan --explain`."
            raise SpecError(said, where=recipe.where, fix=fix)


def _owner(recipe: Recipe, key: str) -> str:
    """The layout field or port that fills a flag or variable in, in whatever section the recipe has it."""
    kind, _, name = key.partition(".")[0], *key.rpartition(".")[1:]
    for section, knobs in recipe.sections.items():
        value = knobs[name].value if section.startswith(kind) and name in knobs else None
        if isinstance(value, str) and (match := re.fullmatch(r"@(layout|port)\.(\w+)", value)):
            return f"{'ports' if match[1] == 'port' else 'layout'}.{match[2]}"
    return ""


def _as_before(recipe: Recipe, key: str, value: Any) -> bool:
    """Whether the recipe has this very value: saying so again is not a mistake."""
    if key.startswith("layout."):
        return bool(getattr(recipe.layout, key[7:]) == value)
    section, _, name = key.rpartition(".")
    above = f"{section.partition('.')[0]}.all"
    knobs = [recipe.sections.get(place, {}).get(name) for place in (section, above)]
    knob = next((item for item in knobs if item is not None), None)
    return knob is not None and knob.value == value


def _fingerprint(recipe: Recipe, cluster: Cluster) -> tuple[object, ...]:
    plan: Plan = make_plan(recipe, cluster)
    return plan.digest, tuple(sorted(hand_scripts(plan).items())), tuple(check_plan(plan))
