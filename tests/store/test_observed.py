"""A simulation is observed where it happens, however it is called; the store caps what rests on it."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from store_samples import HEADER, LAW, REQUESTS, request_rows

from k3repro import observed
from k3repro.store import Artifact, Store, derivation
from k3repro.store._derive import recompute
from k3repro.twin import platform
from k3repro.twin.single import SingleNode, single_node
from k3repro.twin.single_level import simulate_level
from k3repro.twin.waves import simulate_wave

CHILD = """
from k3repro.twin import platform
from k3repro.twin.waves import simulate_wave
simulate_wave(platform("mi325x"), 1, 8, 2)
"""
GRANDCHILD = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {CHILD!r}], check=True)"


def _direct() -> None:
    simulate_wave(platform("mi325x"), 1, 8, 2)


def _by_name() -> None:
    """A table of names, a lambda, an import by string: three indirections."""
    table = {"wave": lambda: importlib.import_module("k3repro.twin.waves")}
    step = getattr(table["wave"](), "_".join(["simulate", "wave"]))
    assert [step(p, 1, 8, 2) for p in [platform("mi300x")]]


def _in_thread() -> None:
    thread = threading.Thread(target=_direct)
    thread.start()
    thread.join()


def _in_child() -> None:
    subprocess.run([sys.executable, "-c", CHILD], check=True)


def _in_grandchild() -> None:
    subprocess.run([sys.executable, "-c", GRANDCHILD], check=True)


def _in_fork() -> None:
    process = get_context("fork").Process(target=_direct)
    process.start()
    process.join()


def _remembered() -> None:
    simulate_level(_node(), 1, 1, 8, 2)


def _node() -> SingleNode:
    return single_node("mi325x-1n/llama-3.1-405b")


WAYS: dict[str, Callable[[], None]] = {
    way.__name__: way
    for way in (_direct, _by_name, _in_thread, _in_child, _in_grandchild, _in_fork, _remembered)
}


@derivation(name="hidden-twin", schema=LAW)
def hidden(inputs: Sequence[Artifact], *, way: str = "") -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """Rows that owe nothing to the inputs."""
    if way:
        WAYS[way]()
    return {"law": [{"id": "a", "slope": 1.0}]}


@pytest.fixture
def published(store: Store) -> Artifact:
    return store.transcribe("printed", "x", {"document": "d"}, LAW, [{"id": "a", "slope": 1.0}])


@pytest.mark.parametrize("way", sorted(WAYS))
def test_whoever_makes_a_core_derives_from_a_simulation(store: Store, published: Artifact, way: str) -> None:
    _remembered()  # so that the remembered result is not made while the derivation runs
    plain = store.derive(hidden, [published])
    assert (plain.basis, "observed" in plain.document) == ("published", False)
    made = store.derive(hidden, [published], parameters={"way": way})
    assert (made.tier, made.basis, made.document["observed"]) == ("derived", "simulated", ["simulated"])
    assert store.verify(full=True) == []


def test_a_basis_sealed_before_cores_were_observed_is_found_and_superseded(
    store: Store, published: Artifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as without:
        without.setattr(observed.Watch, "seen", lambda self: frozenset())
        old = store.derive(hidden, [published], parameters={"way": "_direct"})
    assert old.basis == "published" and store.verify(full=True) == []
    wrong = recompute(old, [published], packages=(hidden.__module__.partition(".")[0],))
    assert wrong and "says derived from published" in wrong
    new = store.derive(hidden, [published], parameters={"way": "_direct"})
    assert [a.seal for a in store.artifacts("hidden-twin")] == [new.seal] and new.basis == "simulated"


def test_a_run_is_marked_and_stays_marked_when_it_is_resumed(store: Store) -> None:
    """The streams are without the mark: the core alone gives the run away."""
    header = dataclasses.replace(
        HEADER,
        subject="cluster",
        serve={"evidence": [{"kind": "build_info", "value": "1"}, {"kind": "metrics", "value": "72"}]},
    )
    with store.begin(header, REQUESTS) as run:
        _direct()
        run.commit("a", {"requests": request_rows(2, "a", "fp")})
    text = (run.folder / "segments.jsonl").read_text()
    assert json.loads(text.splitlines()[-1])["observed"] == ["simulated"]
    with store.begin(header, REQUESTS) as again:
        assert again.seal().tier == "simulated"
    with store.begin(dataclasses.replace(header, subject="other"), REQUESTS) as real:
        real.commit("a", {"requests": request_rows(2, "a", "fp")})
        assert real.seal().tier == "measured"


def test_nobody_remembers_a_simulation_but_with_its_mark() -> None:
    """A plain cache around a core would hide it: what makes cores is remembered by `remembered`."""
    makers = {"core_of", "Core", "SingleCore", "simulate_wave", "simulate_level", "replay"}
    for path in Path(observed.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and any(
                "cache" in ast.unparse(d) for d in node.decorator_list
            ):
                names = {item.id for item in ast.walk(node) if isinstance(item, ast.Name)}
                assert not names & makers, f"{path.name} remembers a simulation"
