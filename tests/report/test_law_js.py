# ruff: noqa: E501
"""The site's evaluator of laws gives the bits of `capacity.evaluate`: real laws, random trees, edges of doubles."""

from __future__ import annotations

import json
import os
import random
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest
from small_site import REPOSITORY

from k3repro.capacity import evaluate
from k3repro.errors import InputError
from k3repro.store import Store

NODE = shutil.which("node")
EVALUATOR = REPOSITORY / "src" / "k3repro" / "report" / "assets" / "k3-law.js"
HARNESS = """
require(process.argv[1]);
const cases = JSON.parse(require("fs").readFileSync(0, "utf8"));
const bits = (x) => { const v = new DataView(new ArrayBuffer(8)); v.setFloat64(0, x); return v.getBigUint64(0).toString(16); };
const answer = ([tree, variables]) => { try { return bits(k3Law.evaluate(tree, variables)); } catch (e) { return "none"; } };
process.stdout.write(JSON.stringify(cases.map(answer)));
"""
OPERATORS = {
    "+": (1, 4), "-": (1, 2), "*": (1, 4), "/": (2, 2), "min": (1, 4), "max": (1, 4), "floor": (1, 1),
    "ceil": (1, 1), "pow": (2, 2), "log": (1, 1), "exp": (1, 1),
}  # fmt: skip
EDGES = [
    0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 3.0, 5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 709.782712893384,
    709.79, -745.13, -746.0, 1 - 2**-53, 1 + 2**-52, 2.0**53 + 1, 1e300, -1e300, 134217729.0, 1e-9, 0.1, 2**40 / 3,
]  # fmt: skip


def python_bits(tree: Any, variables: dict[str, float]) -> str:
    try:
        value = evaluate(tree, variables)
    except InputError:
        return "none"
    return f"{struct.unpack('>Q', struct.pack('>d', value))[0]:x}"


def node_bits(cases: list[tuple[Any, dict[str, float]]]) -> list[str]:
    if NODE is None:
        if "node" in os.environ.get("K3_REQUIRE", ""):
            pytest.fail("K3_REQUIRE=node, but node is missing")
        pytest.skip("node is needed")
    done = subprocess.run(
        [NODE, "-e", HARNESS, str(EVALUATOR)],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        check=True,
    )
    answers: list[str] = json.loads(done.stdout)
    return answers


def parted(cases: list[tuple[Any, dict[str, float]]], answers: list[str]) -> list[Any]:
    mine = [python_bits(*case) for case in cases]
    return [(case, a, b) for case, a, b in zip(cases, mine, answers, strict=True) if a != b][:3]


def real_laws() -> list[Any]:
    """Every formula that the repository's sealed artifacts hold."""
    catalog = Store(REPOSITORY / "artifacts").catalog()
    terms = catalog.query("SELECT law, pool_law FROM capacity_law_terms ORDER BY ALL")
    walls = catalog.query("SELECT law FROM wall_law_fit ORDER BY ALL")
    trees = [json.loads(text) for row in terms for text in (row["law"], row["pool_law"])]
    return trees + [json.loads(row["law"])["formula"] for row in walls]


def random_tree(draw: random.Random, depth: int = 0) -> Any:
    if depth > 4 or draw.random() < 0.25:
        number = draw.choice(
            [draw.choice(EDGES), draw.uniform(-9, 9), draw.randrange(-(2**60), 2**60), draw.random()]
        )
        return draw.choice([number, ["var", draw.choice("ab")]])
    name = draw.choice(sorted(OPERATORS))
    low, high = OPERATORS[name]
    return [name, *(random_tree(draw, depth + 1) for _ in range(draw.randint(low, high)))]


def test_real_laws_at_random_points() -> None:
    draw, laws = random.Random(9), real_laws()
    assert len(laws) >= 10
    cases = [
        (
            draw.choice(laws),
            {
                "context": draw.choice([draw.randrange(1, 2_000_000), draw.uniform(1, 1e6)]),
                "pool": float(draw.randrange(1, 2**40)),
                "osl": draw.choice([float(draw.randrange(1, 4096)), draw.uniform(0, 300)]),
            },
        )
        for _ in range(10_000)
    ]
    answers = node_bits(cases)
    assert parted(cases, answers) == []
    assert "none" not in answers and len(set(answers)) > 1_000


def test_random_trees_at_random_points() -> None:
    draw = random.Random(99)
    cases = [
        (random_tree(draw), {name: draw.choice([draw.choice(EDGES), draw.uniform(-40, 40)]) for name in "ab"})
        for _ in range(10_000)
    ]
    answers = node_bits(cases)
    assert parted(cases, answers) == []
    assert 1_000 < answers.count("none") < 9_000


@pytest.mark.parametrize("name", ["exp", "log", "pow"])
def test_what_browsers_round_as_they_like(name: str) -> None:
    draw = random.Random(name)
    arguments = [
        draw.choice([draw.choice(EDGES), draw.uniform(-700, 700), draw.expovariate(1)]) for _ in range(8_000)
    ]
    tree = [name, ["var", "a"], ["var", "b"]][: 3 if name == "pow" else 2]
    cases = [(tree, {"a": a, "b": b}) for a, b in zip(arguments[::2], arguments[1::2], strict=True)]
    assert parted(cases, node_bits(cases)) == []


BROKEN = [[], ["var"], ["var", "z"], ["nothing", 1], ["floor", 1, 2], ["/", 1], "x", None, True, {}, ["var", "toString"],
          ["constructor", 1], [["var"], 1], ["-", 1, 2, 3]]  # fmt: skip


def test_what_is_no_tree_has_no_value() -> None:
    deep: Any = 1
    for _ in range(80):
        deep = ["-", deep]
    cases = [(tree, {"a": 1.0}) for tree in [*BROKEN, deep]]
    assert node_bits(cases) == ["none"] * len(cases) and parted(cases, node_bits(cases)) == []


def test_the_evaluator_is_small() -> None:
    assert len(Path(EVALUATOR).read_text("utf-8").splitlines()) < 100
