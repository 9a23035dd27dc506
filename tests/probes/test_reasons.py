"""Reasons of a verdict for people, and what to run next."""

from __future__ import annotations

import pytest

from k3repro.probes import run_probe, told_once, what_next
from k3repro.store import Store

LATE = "client-bound: deadlines missed by {} ms, 5.0 ms are allowed here"


def test_what_many_rungs_share_is_said_once_with_its_span() -> None:
    reasons = ["unsafe: measured without a gate", *(f"con=1#{n}: {LATE.format(8.9 + n)}" for n in range(28))]
    assert told_once(reasons) == [
        reasons[0], "28 rungs (con=1#0 to con=1#27): " + LATE.format("8.9 to 35.9"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "reasons",
    [
        ["con=1#0: 1 not completed: 1 timeout", "con=1#1: Little's law is off: ratio 1.2"],
        ["corpus: turns 3 outside 4..5", "2 turns of the window failed"],
        [],
    ],
)
def test_what_differs_stays_as_it_is(reasons: list[str]) -> None:
    assert told_once(reasons) == reasons


def test_the_next_step_is_never_the_one_just_taken_and_keeps_the_options(store: Store) -> None:
    words = "--target twin:mi325x --model m --artifacts here"
    small = {"isl": 128, "osl": 4, "concurrency": (2,), "requests": 2}
    tainted = run_probe("latency", target="twin:mi325x", store=store, unsafe=True, **small)
    commands = [step.command for step in what_next(tainted, store, words)]
    assert commands[0] == f"k3repro artifacts show {tainted.seal[:12]} --artifacts here"
    assert commands[1:] == [f"k3repro probe {name} {words}" for name in ("needle-gate", "envelope")]


def test_a_gate_whose_replies_were_cut_is_run_again_with_a_higher_cap(store: Store) -> None:
    gate = {"context": 500, "concurrency": (1, 2), "max_tokens": 1}
    cut = run_probe("needle-gate", target="twin:mi325x", store=store, **gate)
    assert cut.verdict["outcomes"] == {"capped": 3}
    (first, _) = what_next(cut, store, "--target twin:mi325x")
    assert first.command == "k3repro probe needle-gate --target twin:mi325x --max-tokens 2048"
