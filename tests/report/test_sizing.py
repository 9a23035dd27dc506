"""The page chooses as `capacity size` does, and nothing of it can be changed unseen."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from small_site import REPOSITORY

from k3repro.budget.sealed import seal_spec
from k3repro.errors import InputError
from k3repro.report import Sources, load_queries
from k3repro.report._allowlist import load_grammar
from k3repro.report._bound import Known, PageCheck
from k3repro.report._html import parse_page
from k3repro.report._sizing import grid_text, sizing_html
from k3repro.sizing import VERDICTS, _search, _trial, answer, parse_goal, plan_of
from k3repro.sizing.grid import sizing_grid
from k3repro.store import Artifact, Column, Schema, Store, Table, derivation
from k3repro.workload import Workload

pytestmark = pytest.mark.slow

NODE = shutil.which("node")
SCRIPT = REPOSITORY / "src" / "k3repro" / "report" / "assets" / "k3-sizing.js"
HARNESS = """
require(process.argv[1]);
const [data, cases] = JSON.parse(require("fs").readFileSync(0, "utf8"));
const answers = cases.map(([platform, asked]) => k3Sizing.choose(data, platform, asked));
process.stdout.write(JSON.stringify(answers));
"""
ISL, OSL, USERS = (1024, 8192), (32, 64), (1, 16, 32)
AXES = {"isl": ISL, "osl": OSL, "users": USERS}
CELLS = Table(
    "cells",
    (
        *(Column(name, "VARCHAR") for name in ("platform", "source", "cell", "quantity", "regime")),
        *(Column(name, "INT64") for name in ("isl", "concurrency")),
        Column("error", "DOUBLE"),
    ),
    key=("platform", "source", "cell", "quantity"),
)


@derivation(name="twin-fidelity", schema=Schema((CELLS,)))
def some_fidelity(inputs: Any) -> dict[str, list[dict[str, Any]]]:
    """Errors of one regime, of the first token too few for a yes; nothing is known of long prompts."""
    rows = [
        {
            "platform": name, "source": "Table", "cell": f"{name} {quantity} {error}", "quantity": quantity,
            "regime": "queue", "isl": 1024, "concurrency": 16, "error": error,
        }
        for name in ("mi300x", "mi325x")
        for quantity, errors in (("ttft_p50_s", (0.4,)), ("tpot_ms", (-0.12, 0.03)), ("wall", (0.05, -0.4)))
        for error in errors
    ]  # fmt: skip
    return {"cells": rows}


@pytest.fixture(scope="module", autouse=True)
def each_candidate_once() -> Iterator[None]:
    """The same trial is asked for by many inputs."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (_search, _trial):
            patch.setattr(module, "try_candidate", lru_cache(maxsize=None)(_trial.try_candidate))
        yield


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Store, Artifact]]:
    store = Store(tmp_path_factory.mktemp("store"))
    fidelity = store.derive(some_fidelity, [seal_spec(store, "models", "kimi-k3")], subject="twin")
    points = {"isl": ISL, "osl": OSL, "users": USERS, "most_nodes": 10}
    store.derive(sizing_grid, [fidelity], "kimi-k3", points)
    yield store, fidelity


@pytest.fixture(scope="module")
def sources(known: tuple[Store, Artifact], tmp_path_factory: pytest.TempPathFactory) -> Sources:
    folder = tmp_path_factory.mktemp("queries")
    (folder / "sizing-grid.sql").write_text(
        "-- title: Deployments simulated ahead\n-- empty: not simulated\nSELECT * FROM sizing_grid_rows\n"
        "ORDER BY platform, isl, osl, users, nodes, prefill_pools, max_num_seqs\n"
    )
    return Sources(known[0].catalog(), load_queries(folder))


def data(sources: Sources) -> dict[str, Any]:
    found = re.fullmatch(
        r"window\.k3Grids=Object\.assign\(.*?\{\},(.*)\);\n", grid_text(sources, "sizing-grid")
    )
    assert found
    return dict(json.loads(found.group(1))["sizing-grid"])


def ask(draw: random.Random, **points: int) -> dict[str, Any]:
    return {
        "isl": draw.choice(ISL), "osl": draw.choice(OSL), "users": draw.choice(USERS),
        "percentile": draw.choice(["p50", "p95"]),
        "ttft": draw.choice([None, round(draw.uniform(0.5, 20), 2)]),
        "tpot": draw.choice([None, round(draw.uniform(60, 130), 1)]),
        "e2e": draw.choice([None, round(draw.uniform(2, 40), 1)]),
        **points,
    }  # fmt: skip


planned = lru_cache(maxsize=None)(plan_of)


def commanded(known: Artifact, platform: str, asked: dict[str, Any]) -> dict[str, Any]:
    """What the command says of a workload: its choice, or the deployment that misses by least."""
    goals = [
        parse_goal(name, f"{asked[name]}@{asked['percentile']}")
        for name in ("ttft", "tpot", "e2e")
        if asked[name]
    ]
    plan = planned(Workload.of({name: asked[name] for name in ("isl", "osl", "users")}))
    found = answer(platform, plan, goals, most_nodes=10, errors=known.rows("cells"), sensitivity=False)
    if not found.picks:
        return {"verdict": "no", "why": found.reasons[0]}
    choice = found.picks[0].trial
    one = choice.candidate
    return {
        "verdict": found.verdict, "binds": found.binds, "nodes": one.nodes, "replicas": one.replicas,
        "surer": [(pick.verdict, pick.trial.candidate.nodes) for pick in found.found.surer],
        "prefill_pools": one.prefill_pools, "decode_pools": one.decode_pools,
        "max_num_seqs": one.settings.max_num_seqs,
        "ttft_s_p95": choice.values["ttft_s_p95"], "tokens_per_s": choice.values["tokens_per_s"],
    }  # fmt: skip


def chosen(sources: Sources, cases: list[tuple[str, dict[str, Any]]]) -> list[dict[str, Any]]:
    """What the page's script makes of each case."""
    done = subprocess.run(
        [str(NODE), "-e", HARNESS, str(SCRIPT)], input=json.dumps([data(sources), cases]),
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return list(json.loads(done.stdout))


@pytest.mark.skipif(NODE is None, reason="needs node")
def test_the_page_answers_as_the_command_for_500_inputs(
    known: tuple[Store, Artifact], sources: Sources
) -> None:
    draw = random.Random(17)
    cases = [(draw.choice(["mi300x", "mi325x"]), ask(draw)) for _ in range(500)]
    seen, misses, surer = set(), 0, 0
    for (platform, asked), got in zip(cases, chosen(sources, cases), strict=True):
        wanted = commanded(known[1], platform, asked)
        if "the nearest" in (why := wanted.pop("why", "")):
            near = got["nearest"]
            times = f"{near['replicas']} x " if near["replicas"] > 1 else ""
            shape = f"{near['nodes']} nodes as {times}{2 * near['prefill_pools']}P"
            assert shape in why, (platform, asked)
            misses += 1
        flat = {**(got["row"] or {}), "verdict": got["verdict"], "binds": got.get("binds")}
        flat["surer"] = [(one["verdict"], one["row"]["nodes"]) for one in got.get("surer", ())]
        surer += len(flat["surer"])
        assert {name: flat[name] for name in wanted} == wanted, (platform, asked)
        seen.add((wanted["verdict"], wanted.get("nodes")))
    assert {verdict for verdict, _ in seen} == set(VERDICTS) and len(seen) > 6
    assert misses > 20 and surer > 10


@pytest.mark.skipif(NODE is None, reason="needs node")
def test_off_the_grid_the_page_gives_no_number_of_its_own(sources: Sources) -> None:
    """A workload between simulated ones gets the answers of its neighbours, each as asked alone."""
    draw = random.Random(18)
    cases = []
    for _ in range(500):
        anywhere = {name: draw.randrange(1, axis[-1] + axis[0]) for name, axis in AXES.items()}
        on = {name: draw.choice(axis) for name, axis in AXES.items()}
        asked = ask(draw, **{name: draw.choice([anywhere[name], on[name]]) for name in AXES})
        if any(asked[name] not in axis for name, axis in AXES.items()):
            cases.append(("mi325x", asked))
    found = chosen(sources, cases)
    assert {got["verdict"] for got in found} == {"between", "outside"}
    assert not any(got["row"] for got in found)
    for (_, asked), got in zip(cases, found, strict=True):
        inside = all(axis[0] <= asked[name] <= axis[-1] for name, axis in AXES.items())
        assert inside == (got["verdict"] == "between"), asked
    beside = [(got, case) for got, case in zip(found, cases, strict=True) if got["verdict"] == "between"]
    alone = chosen(sources, [
        (name, {**asked, **{axis: one[axis] for axis in AXES}})
        for got, (name, asked) in beside for one in got["neighbours"]
    ])  # fmt: skip
    said = [one for got, _ in beside for one in got["neighbours"]]
    assert len(said) > 500
    for one, wanted in zip(said, alone, strict=True):
        assert {name: one[name] for name in wanted} == wanted
    for got, (_, asked) in beside:
        for name in AXES:
            points = {one[name] for one in got["neighbours"]}
            assert points == {max(p for p in AXES[name] if p <= asked[name]),
                              min(p for p in AXES[name] if p >= asked[name])}  # fmt: skip


@pytest.mark.skipif(NODE is None, reason="needs node")
def test_beyond_the_grid_there_is_no_answer(sources: Sources) -> None:
    (got,) = chosen(sources, [("mi300x", ask(random.Random(0), isl=10**6))])
    assert (got["verdict"], got["beyond"], got["row"]) == ("outside", ["isl"], None)


def checked(sources: Sources, html: str) -> PageCheck:
    root, _ = parse_page(f"<html><body><article>{html}</article></body></html>".encode())
    page = PageCheck(
        "size.html", root, sources, Known(Path(), frozenset()), load_grammar(REPOSITORY / "site")
    )
    page.run()
    return page


def check(sources: Sources, html: str) -> list[str]:
    return [str(finding) for finding in checked(sources, html).findings]


def test_a_changed_number_is_found(sources: Sources) -> None:
    html = sizing_html(sources, "sizing-grid")
    assert check(sources, html) == []
    assert check(sources, html.replace('data-live="mi300x-nodes"', 'data-live="mi325x-nodes"', 1))
    assert check(sources, html.replace("</output> nodes", "9</output> nodes", 1))


def test_the_grid_is_owed_by_the_page_that_has_the_form(sources: Sources) -> None:
    page = checked(sources, sizing_html(sources, "sizing-grid"))
    assert page.grids == {"behind/grid/sizing-grid.js": grid_text(sources, "sizing-grid")}


def test_a_query_without_rows_is_refused(known: tuple[Store, Artifact], tmp_path: Path) -> None:
    (tmp_path / "q.sql").write_text(
        "-- title: x\n-- empty: y\nSELECT seal, platform FROM sizing_grid_rows ORDER BY platform, seal\n"
    )
    with pytest.raises(InputError, match="binds_e2e"):
        sizing_html(Sources(known[0].catalog(), load_queries(tmp_path)), "q")
