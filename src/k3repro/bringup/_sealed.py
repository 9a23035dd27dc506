"""Plan, rules and recorded failures as artifacts, so that pages can show them: tier config."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from k3repro.bringup._plan import Plan
from k3repro.bringup._rule import RULES
from k3repro.bringup._rules import check_plan
from k3repro.spec import engine_rules
from k3repro.store import Artifact, Column, Schema, Store, Table
from k3repro.toml import shipped_toml

_TEXT = "VARCHAR"


def _table(name: str, doc: str, *columns: str, key: tuple[str, ...]) -> Table:
    made = [
        Column(item, "INT64" if item in {"step", "row", "first_lane", "last_lane", "x", "y"} else _TEXT)
        for item in columns
    ]
    return Table(name, tuple(made), key=key, doc=doc)


PLAN = Schema(
    (
        _table(
            "steps",
            "One process in order of launch; x and y place it in a drawing.",
            "step",
            "role",
            "pool",
            "node",
            "first_lane",
            "last_lane",
            "all2all",
            "graph",
            "says",
            "x",
            "y",
            key=("step",),
        ),
        _table(
            "knobs",
            "Every setting with its reason and source.",
            "section",
            "name",
            "value",
            "why",
            "source",
            key=("section", "name"),
        ),
        _table(
            "choices",
            "Where stored recipe and publication disagree.",
            "topic",
            "stored",
            "published",
            "follows",
            "why",
            key=("topic",),
        ),
        _table(
            "broken",
            "Rules the plan breaks and still may start.",
            "id",
            "outcome",
            "what",
            "reason",
            "fix",
            "source",
            key=("id", "what"),
        ),
    )
)
CHECKED = Schema(
    (
        _table(
            "rules",
            "What is checked before anything starts.",
            "id",
            "outcome",
            "reason",
            "fix",
            "source",
            key=("id",),
        ),
        _table(
            "engine",
            "What engine versions do with a combination.",
            "id",
            "outcome",
            "since",
            "until",
            "what",
            "fix",
            "evidence",
            key=("id",),
        ),
        _table(
            "failures",
            "Recorded failures and what catches each.",
            "row",
            "source",
            "symptom",
            "caught_by",
            "how",
            "tests",
            "why_not",
            key=("row",),
        ),
    )
)


@dataclass(frozen=True, slots=True)
class Failure:
    """A recorded failure: what catches it, how it is staged and by which tests, or why not live."""

    row: int
    source: str
    symptom: str
    caught_by: str
    how: str
    tests: tuple[str, ...]
    why_not: str = ""


@cache
def failures() -> tuple[Failure, ...]:
    """The shipped list, in the order of the recorded table."""
    entries = shipped_toml("k3repro.bringup", "failures.toml")["failure"]
    return tuple(Failure(**{**entry, "tests": tuple(entry["tests"])}) for entry in entries)


def seal_plan(store: Store, plan: Plan) -> Artifact:
    """Seal what a recipe does on a cluster: steps, knobs, choices, and the rules it breaks."""
    knobs = [
        {"section": section, "name": name, "value": str(knob.value), "why": knob.why, "source": knob.source}
        for section, values in plan.recipe.sections.items()
        for name, knob in values.items()
    ]
    choices = [
        {"topic": item.topic, "stored": item.stored, "published": item.published, "follows": item.follows,
         "why": item.why}
        for item in plan.recipe.choices
    ]  # fmt: skip
    broken = [
        {name: getattr(item, name) for name in ("id", "outcome", "what", "reason", "fix", "source")}
        for item in check_plan(plan)
    ]
    rows = {"steps": _steps(plan), "knobs": knobs, "choices": choices, "broken": broken}
    citation = {"recipe": f"pipelines/recipes/{plan.recipe.where}", "locator": f"plan {plan.digest}"}
    return store.transcribe("bring-up-plan", plan.recipe.name, citation, PLAN, rows)


def _steps(plan: Plan) -> list[dict[str, Any]]:
    local = plan.recipe.platform.gpus_per_node // plan.recipe.layout.tp
    rows: list[dict[str, Any]] = []
    for step, launch in enumerate(plan.launches, start=1):
        first = 0 if launch.node.master else local
        decode = launch.node.pool == "decode"
        rows.append({
            "step": step, "role": launch.role, "pool": launch.node.pool, "node": launch.node.host,
            "first_lane": first, "last_lane": first + local - 1,
            "all2all": launch.flag("--all2all-backend"), "graph":
            str(launch.document("--compilation-config").get("cudagraph_mode", "")),
            "says": f"{step}. {launch.role.replace('_', ' ')} on {launch.node.host}",
            "x": 2 if decode else 1, "y": 1 if launch.node.master else 2,
        })  # fmt: skip
    node = plan.router.node.host
    rows.append({
        "step": len(rows) + 1, "role": "router", "pool": "both", "node": node, "first_lane": None,
        "last_lane": None, "all2all": None, "graph": None, "says": f"{len(rows) + 1}. router on {node}",
        "x": 1, "y": 0,
    })  # fmt: skip
    return rows


def seal_rules(store: Store) -> Artifact:
    """Seal what is checked: rules, rules of engine versions, and recorded failures."""
    names = ("id", "outcome", "reason", "fix", "source")
    rows = {
        "rules": [{name: getattr(item, name) for name in names} for item in RULES.values()],
        "engine": [
            {"id": item.id, "outcome": item.outcome, "since": item.since, "until": item.until,
             "what": item.what, "fix": item.fix, "evidence": item.evidence}
            for item in engine_rules()
        ],
        "failures": [
            {"row": item.row, "source": item.source, "symptom": item.symptom, "caught_by": item.caught_by,
             "how": item.how, "tests": "; ".join(item.tests), "why_not": item.why_not}
            for item in failures()
        ],
    }  # fmt: skip
    citation = {"recipe": "src/k3repro/bringup", "locator": "rules, engine-rules.toml, failures.toml"}
    return store.transcribe("bring-up-rules", "k3-2p2d", citation, CHECKED, rows)
