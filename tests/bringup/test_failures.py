"""The list of recorded failures: complete, honest about what is not live, and every test it names exists."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from k3repro.bringup import (
    CHECKS,
    RULES,
    Failure,
    check_plan,
    failures,
    load_cluster,
    load_recipe,
    make_plan,
    seal_plan,
    seal_rules,
)
from k3repro.bringup._node_status import PATTERNS
from k3repro.store import Store

ROOT = Path(__file__).parents[2]
HOW = {"live", "played", "said", "rule"}
# Words a command uses for what it found, besides rules, checks of doctor and fatal lines.
VERDICTS = {"wedged", "fabric-degraded", "deferred-writes-expired", "role-gone"}
VERDICTS |= {"needle gate", "tcp-fallback", "no regular file", "neighbours by name"}
VERDICTS |= {"one token through the router", "no answer through the router"}


def functions(path: Path) -> set[str]:
    return {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)}


def test_the_list_is_the_recorded_table() -> None:
    assert [item.row for item in failures()] == list(range(1, 27))


@pytest.mark.parametrize("failure", failures(), ids=lambda item: f"row-{item.row}")
def test_every_test_it_names_exists(failure: Failure) -> None:
    assert failure.tests and failure.how in HOW
    for name in failure.tests:
        file, _, function = name.partition("::")
        assert function in functions(ROOT / file), name


@pytest.mark.parametrize("failure", failures(), ids=lambda item: f"row-{item.row}")
def test_what_is_not_live_says_why(failure: Failure) -> None:
    assert (failure.how == "live") == (not failure.why_not)


@pytest.mark.parametrize("failure", failures(), ids=lambda item: f"row-{item.row}")
def test_what_catches_it_is_something_that_can_catch(failure: Failure) -> None:
    check_plan(make_plan(load_recipe("kimi-k3-mi325x"), load_cluster("mi325x-thor2")))
    known = set(RULES) | set(CHECKS) | set(PATTERNS) | VERDICTS
    assert any(word in failure.caught_by for word in known)


def test_docs_have_the_same_table() -> None:
    text = (ROOT / "docs" / "bringup.md").read_text()
    for item in failures():
        assert f"| {item.row} | {item.source} | {item.caught_by} | {item.how} |" in text, item.row


def test_plan_and_rules_are_sealed_as_config(tmp_path: Path) -> None:
    store = Store(tmp_path)
    cluster = load_cluster("mi300x-cx7")
    plan = seal_plan(store, make_plan(load_recipe(cluster.recipe), cluster))
    rules = seal_rules(store)
    assert plan.tier == rules.tier == "config"
    assert [row["role"] for row in plan.rows("steps")][-1] == "router" and len(plan.rows("knobs")) > 100
    assert {row["id"] for row in rules.rows("rules")} == set(RULES)
    assert len(rules.rows("failures")) == len(failures())
    assert seal_rules(store).seal == rules.seal
