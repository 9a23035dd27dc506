# ruff: noqa: E501
"""The calculator in the page answers as `k3repro.capacity` does, and nothing of it can be changed unseen."""

from __future__ import annotations

import dataclasses
import json
import math
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest
from small_site import REPOSITORY
from tests.report.test_law_js import EVALUATOR, NODE, node_bits

from k3repro.capacity import n_max
from k3repro.capacity.derive import engine_of
from k3repro.capacity.wall import published_wall
from k3repro.errors import InputError
from k3repro.report import Sources, load_queries
from k3repro.report._bound import Known, PageCheck
from k3repro.report._calculator import calculator_html
from k3repro.report._html import parse_page
from k3repro.report._names import load_grammar
from k3repro.spec import load_layout, load_model
from k3repro.store import Store

ANSWERS = EVALUATOR.with_name("k3-calculator.js")
HARNESS = """
require(process.argv[1]); require(process.argv[2]);
const cases = JSON.parse(require("fs").readFileSync(0, "utf8"));
process.stdout.write(JSON.stringify(cases.map(([row, asked]) => k3Calculator.answer(row, asked))));
"""


@pytest.fixture(scope="module")
def sources() -> Sources:
    return Sources(Store(REPOSITORY / "artifacts").catalog(), load_queries(REPOSITORY / "site" / "queries"))


def laws(sources: Sources) -> list[dict[str, Any]]:
    root, _ = parse_page(calculator_html(sources, "calculator").encode())
    return list(json.loads(root.xpath("//script[@class='k3-laws']")[0].text))


def ask(draw: random.Random, row: dict[str, Any]) -> dict[str, Any]:
    context = draw.choice([1280, 2, 200_000, draw.randrange(2, 1_200_000), 10 ** draw.randrange(1, 9)])
    return {
        "context": context,
        "concurrency": draw.choice([1, 32, draw.randrange(1, 3000)]),
        "reply": min(draw.choice([256, 16, draw.randrange(1, 2000)]), context - 1),
        "pool_bytes": draw.choice([row["pool_bytes"], row["pool_bytes"], draw.randrange(2 * 10**9, 10**11)]),
        "slots": row["slots"],
        "latency": draw.choice([None, draw.uniform(0.1, 50)]),
        "price": draw.choice([None, 0, draw.uniform(1, 99)]),
    }


def expected(row: dict[str, Any], asked: dict[str, Any]) -> dict[str, Any]:
    """What the library says, in the calculator's words."""
    layout = load_layout(f"k3-2p2d-{row['platform'].lower()}")
    engine = engine_of(layout, prefix_caching=row["caching"] == "on")
    fits = n_max(
        load_model("kimi-k3"), engine, asked["pool_bytes"], asked["context"],
        max_num_seqs=layout.max_num_seqs, max_model_len=layout.max_model_len,
    )  # fmt: skip
    pools = math.ceil(asked["concurrency"] / fits.effective) if fits.effective else None
    nodes = None if pools is None else pools * layout.decode_nodes + layout.prefill_nodes
    wall = published_wall(layout)
    at = {
        "osl": float(asked["reply"]),
        "isl": float(asked["context"] - asked["reply"]),
        "concurrency": float(asked["concurrency"]),
    }
    return {
        "block": fits.block, "pool": fits.pool, "limit": fits.slots, "effective": fits.effective, "binds": fits.binds, "next": fits.next,
        "pools": pools, "nodes": nodes, "wall": None if wall.outside(at) else wall(**at),
        "cost": None if nodes is None or asked["price"] is None else nodes * asked["price"],
    }  # fmt: skip


def test_answers_are_the_librarys(sources: Sources) -> None:
    node_bits([(1, {})])  # skips where node is missing
    assert NODE is not None
    draw = random.Random(9)
    cases = [(row, ask(draw, row)) for row in laws(sources) for _ in range(300)]
    calibrated = {"context": 1280, "concurrency": 1, "reply": 256, "latency": None, "price": None}
    cases += [
        (row, calibrated | {"pool_bytes": row["pool_bytes"], "slots": row["slots"]}) for row in laws(sources)
    ]
    done = subprocess.run(
        [NODE, "-e", HARNESS, str(EVALUATOR), str(ANSWERS)],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        check=True,
    )
    answers = json.loads(done.stdout)
    seen = set()
    for (row, asked), answer in zip(cases, answers, strict=True):
        wanted = expected(row, asked)
        assert {name: answer[name] for name in wanted} == wanted, (row["platform"], asked)
        seen.add((answer["binds"], answer["wall"] is None))
    assert {("blocks", True), ("slots", True), ("slots", False), ("max_model_len", True)} <= seen
    assert all("outside the calibrated" in " ".join(a["reasons"]) for a in answers if a["wall"] is None)


def check(sources: Sources, html: str) -> list[str]:
    root, _ = parse_page(f"<html><body><article>{html}</article></body></html>".encode())
    grammar = load_grammar(REPOSITORY / "site")
    page = PageCheck("calculator.html", root, sources, Known(Path(), frozenset()), grammar)
    page.run()
    return [str(finding) for finding in page.findings]


MUTANTS = {
    "a coefficient": ('"wall":{"formula":["+",0.97', '"wall":{"formula":["+",0.96'),
    "a bound of a range": ('"osl":[16,256]', '"osl":[16,2560]'),
    "an operator": ('["floor",', '["ceil",'),
    "a launch fact": ('"decode_nodes":2', '"decode_nodes":1'),
    "a default in the form": (' value="200000"', ' value="100000"'),
    "a default in the data": ('"default_context":200000', '"default_context":100000'),
    "a platform": ("MI325X</option>", "MI355X</option>"),
    "an answer typed in": ("></output>", ">74</output>"),
    "the artifacts of an answer": (' data-artifacts="', ' data-artifacts="0'),
    "the tier of an answer": ('data-tier="derived"', 'data-tier="measured"'),
    "a label": ("Requests in flight", "Requests a second"),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(MUTANTS))
def test_a_calculator_changed_by_hand_is_found(sources: Sources, name: str) -> None:
    html = calculator_html(sources, "calculator")
    assert check(sources, html) == []
    old, new = MUTANTS[name]
    assert old in html, name
    assert check(sources, html.replace(old, new, 1))


def test_laws_outside_a_calculator_are_found(sources: Sources) -> None:
    html = calculator_html(sources, "calculator")
    stray = html.replace("k3-calculator", "k3-form", 1)
    assert check(sources, stray)


def test_a_query_without_what_is_needed_is_refused(sources: Sources) -> None:
    with pytest.raises(InputError, match="returns no"):
        calculator_html(sources, "block-law-terms")


def test_a_form_that_opens_without_an_answer_is_refused(sources: Sources) -> None:
    """Layouts of another study once joined in: rows twice, the first of them without a reply length."""
    rows = sources.result("calculator").rows
    pairs = [(row["platform"], row["caching"]) for row in rows]
    assert len(set(pairs)) == len(pairs) and all(row["default_reply"] for row in rows)
    bare = Sources(sources.catalog, dict(sources.queries))
    bare._results["calculator"] = dataclasses.replace(
        sources.result("calculator"), rows=[{**rows[0], "default_reply": None}, *rows[1:]]
    )
    with pytest.raises(InputError, match="has no default_reply"):
        calculator_html(bare, "calculator")
    bare._results["calculator"] = dataclasses.replace(sources.result("calculator"), rows=[rows[0], *rows])
    with pytest.raises(InputError, match="several rows are about"):
        calculator_html(bare, "calculator")
