"""What engine versions do with a combination of settings: data/engine-rules.toml, evidence per rule."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from k3repro.errors import InputError
from k3repro.spec._model import Model
from k3repro.toml import shipped_toml

__all__ = ["EngineRule", "engine_rules", "model_facts", "rules_for"]


@dataclass(frozen=True, slots=True)
class EngineRule:
    """What an engine does in a range of versions. `when` maps facts of a launch to the values it holds for.

    `since` <= version < `until`; either may be missing. `outcome`: allow, deny or substitutes.
    """

    id: str
    outcome: str
    what: str
    fix: str
    evidence: str
    when: dict[str, Any]
    since: str = ""
    until: str = ""

    def covers(self, version: tuple[int, int, int]) -> bool:
        """Whether the rule is about this version."""
        low = _version(self.since) if self.since else (0, 0, 0)
        high = _version(self.until) if self.until else (999, 0, 0)
        return low <= version < high

    def matches(self, facts: dict[str, Any]) -> bool:
        """Whether every condition holds; an unknown fact matches nothing."""
        return all(_holds(facts.get(name), wanted) for name, wanted in self.when.items())


def _holds(have: Any, wanted: Any) -> bool:
    if have is None:
        return False
    if isinstance(wanted, dict):
        return all(
            (test == "not" and have not in limit) or (test == "above" and have > limit)
            or (test == "not_multiple_of" and have % limit != 0)
            for test, limit in wanted.items()
        )  # fmt: skip
    return have in wanted if isinstance(wanted, list) else bool(have == wanted)


def _version(text: str) -> tuple[int, int, int]:
    parts = [int(part) for part in text.split(".")]
    return (parts[0], parts[1], parts[2] if len(parts) > 2 else 0)


@cache
def engine_rules() -> tuple[EngineRule, ...]:
    """The shipped rules."""
    rules = shipped_toml("k3repro.spec", "data/engine-rules.toml")["rule"]
    return tuple(EngineRule(**entry) for entry in rules)


def model_facts(model: Model, tp: int, vision_mode: str | None = None) -> dict[str, Any]:
    """What engine rules ask about a model at a TP size; in vision mode "data" the tower is not sharded."""
    mla, vision = model.mla, model.vision
    sharded = 1 if vision_mode == "data" else tp
    return {
        "attention": ("sparse-mla" if model.indexer else "dense-mla") if mla is not None else "gqa",
        "heads_per_rank": mla.heads // tp if mla else None,
        "vision_columns": vision.intermediate // sharded if vision else None,
    }


def rules_for(facts: dict[str, Any], version: str) -> list[EngineRule]:
    """Rules that match facts at an engine version, deny first.

    Raises:
        InputError: not a version.
    """
    try:
        parsed = _version(version.removeprefix("vllm==").removeprefix("v"))
    except (ValueError, IndexError):
        raise InputError(f"{version!r} is not an engine version", fix="Write it like 0.14.1.") from None
    order = ("deny", "substitutes", "allow")
    found = [item for item in engine_rules() if item.covers(parsed) and item.matches(facts)]
    return sorted(found, key=lambda item: order.index(item.outcome))
