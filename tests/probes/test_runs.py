"""Whole runs on the simulated cluster: clean, lied to, interrupted, killed, repeated elsewhere."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lies import Lie, each

from k3repro.client import Outcome
from k3repro.errors import GateFailed, InvalidRun, UsageError
from k3repro.probes import Silent, _run, estimate_probe, fit_wall_law, run_probe
from k3repro.store import Artifact, Store

SMALL = {"context": 2000, "concurrency": (1, 4, 8)}
TWIN = "twin:mi325x"


def gate(store: Store, **changes: Any) -> Artifact:
    return run_probe("needle-gate", target=TWIN, store=store, **(SMALL | changes))


def test_the_clean_twin_passes_everything_and_is_simulated(store: Store) -> None:
    passed = gate(store)
    assert passed.verdict["ok"] and passed.tier == "simulated" and passed.clock == "virtual"
    assert passed.verdict["power"].startswith("13 of 13") and not passed.rows("leaks")
    assert passed.rows("construction")[0]["words_sha256"]
    sweep = run_probe("osl-sweep", target=TWIN, store=store, osl=(4, 8, 16), repeats=2)
    assert sweep.verdict["ok"] and sweep.inputs == (passed.seal,)
    envelope = run_probe("envelope", target=TWIN, store=store, osl=8, concurrency=(1, 4))
    assert envelope.verdict["ok"] and {row["text"] for row in envelope.rows("requests")} == {""}
    latency = run_probe("latency", target=TWIN, store=store, osl=8, concurrency=(4,), requests=10)
    assert latency.verdict["ok"] and sum(row["measured"] for row in latency.rows("rungs")) == 3
    fit = store.derive(fit_wall_law, [sweep])
    assert fit.rows("fit")[0]["n"] == 6 and fit.tier == "derived" and fit.basis == "simulated"


@pytest.mark.parametrize("name", ["needle-gate", "osl-sweep", "envelope", "latency"])
def test_the_estimate_is_what_is_sent(store: Store, name: str) -> None:
    small: dict[str, dict[str, Any]] = {
        "needle-gate": SMALL,
        "osl-sweep": {"osl": (4, 8), "repeats": 1},
        "envelope": {"osl": 8, "concurrency": (1, 4)},
        "latency": {"osl": 8, "concurrency": (4,), "requests": 8},
    }
    artifact = run_probe(name, target=TWIN, store=store, unsafe=True, **small[name])
    plan, sent = estimate_probe(name, **small[name]), artifact.rows("requests")
    assert plan["total"]["requests"] == len(sent)
    rungs = {row["rung"]: row for row in artifact.rows("rungs")}
    for row in plan["rungs"]:
        assert rungs[row["rung"]]["requests"] == row["requests"]
        tokens = rungs[row["rung"]]["completion_tokens"]
        assert tokens == row["output_tokens"] if name != "needle-gate" else tokens <= row["output_tokens"]


def test_speed_is_not_measured_before_a_passing_gate_of_this_very_serve(store: Store) -> None:
    with pytest.raises(GateFailed, match="no passing needle-gate"):
        run_probe("envelope", target=TWIN, store=store, concurrency=(1,), osl=4)
    gate(store, concurrency=(1,))
    with pytest.raises(GateFailed):  # nothing was in flight together
        run_probe("envelope", target=TWIN, store=store, concurrency=(1,), osl=4)
    gate(store)
    with pytest.raises(GateFailed):
        run_probe("envelope", target="twin:mi325x?max_num_seqs=4", store=store, concurrency=(1,), osl=4)
    with pytest.raises(GateFailed):
        run_probe("envelope", target=TWIN, seed=1, store=store, concurrency=(1,), osl=4)
    tainted = run_probe("envelope", target=TWIN, store=store, concurrency=(1,), osl=4, unsafe=True)
    assert tainted.verdict["tainted"] and not tainted.verdict["ok"] and tainted.parameters["unsafe"]


def test_a_server_that_answers_with_another_needle_is_caught_and_named(
    store: Store, lying: Callable[[Lie], None]
) -> None:
    def swap(records: list[Any]) -> list[Any]:
        texts = [record.text for record in records]
        return each(lambda record: {"text": texts[(int(record.request_id[-3:]) + 1) % len(texts)]})(records)

    lying(swap)
    failed = gate(store)
    assert not failed.verdict["ok"] and failed.verdict["outcomes"] == {"hit": 1, "leak": 12}
    assert failed.verdict["signature"].startswith("concurrent mix-up")
    leaks = {(row["asker"], row["owner"], row["timing"]) for row in failed.rows("leaks")}
    assert ("gate-1-con=4-003", "gate-1-con=4-000", "concurrent") in leaks and len(leaks) == 12
    with pytest.raises(GateFailed):
        run_probe("envelope", target=TWIN, store=store, concurrency=(1,), osl=4)


LIES: dict[str, tuple[Lie, str]] = {
    "truncates": (each(lambda r: {"outcome": Outcome.TRUNCATED, "completion_tokens": 3}), "not completed"),
    "counts wrong tokens": (each(lambda r: {"completion_tokens": r.completion_tokens - 1}), "forced output"),
    "other prompt": (each(lambda r: {"prompt_tokens": r.prompt_tokens * 2}), "off target"),
    "prefix cache": (each(lambda r: {"cached_tokens": r.prompt_tokens // 2}), "prefix cache"),
    "loses a record": (lambda records: records[:-1], "records of"),
}


@pytest.mark.parametrize("name", sorted(LIES))
def test_a_lying_server_makes_the_envelope_invalid(
    store: Store, lying: Callable[[Lie], None], name: str
) -> None:
    gate(store)
    lie, reason = LIES[name]
    lying(lie)
    found = run_probe("envelope", target=TWIN, store=store, concurrency=(4,), osl=16)
    assert not found.verdict["ok"] and any(reason in text for text in found.verdict["reasons"])


def test_a_token_cap_is_told_apart_from_a_miss(store: Store) -> None:
    capped = gate(store, max_tokens=2)
    assert (
        capped.verdict["outcomes"] == {"capped": 13} and "raise --max-tokens" in capped.verdict["reasons"][0]
    )


def test_a_prompt_of_another_size_fails_the_gate(store: Store, lying: Callable[[Lie], None]) -> None:
    """ruler-lite: a rung of 262,144 tokens that sent 4,840 passed."""
    lying(each(lambda record: {"prompt_tokens": 40}))
    found = gate(store)
    assert not found.verdict["ok"] and "off target 2000" in found.verdict["reasons"][0]


CODE = """
import os, signal, sys
from k3repro.probes import Silent, run_probe
from k3repro.store import Store

class Killer(Silent):
    left = int(sys.argv[3])
    def finished(self, row, *, resumed=False):
        Killer.left -= 1
        if Killer.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

store = Store(sys.argv[1])
gate = {"context": 2000, "concurrency": (1, 4, 8)}
options = gate if sys.argv[2] == "needle-gate" else {"osl": 8, "concurrency": (1, 4)}
run = run_probe(sys.argv[2], target="twin:mi325x", store=store, unsafe=True, progress=Killer(), **options)
print(run.data)
"""


def elsewhere(root: Path, name: str, rungs: int) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONHASHSEED": "3", "TZ": "Asia/Tokyo"}
    command = [sys.executable, "-c", CODE, str(root), name, str(rungs)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


@pytest.mark.parametrize(("name", "rungs"), [("needle-gate", 5), ("envelope", 4)])
def test_killed_between_waves_and_resumed_gives_the_same_data(
    store: Store, tmp_path: Path, name: str, rungs: int
) -> None:
    other = tmp_path / "killed"
    assert elsewhere(other, name, rungs).returncode == -signal.SIGKILL
    assert not Store(other).artifacts(name=name)
    resumed = elsewhere(other, name, 999)
    whole = elsewhere(tmp_path / "whole", name, 999)
    assert resumed.returncode == whole.returncode == 0, resumed.stderr
    assert resumed.stdout == whole.stdout


def test_a_resumed_twin_run_that_differs_is_set_aside(store: Store, lying: Callable[[Lie], None]) -> None:
    class Stop(Silent):
        def finished(self, row: Any, *, resumed: bool = False) -> None:
            if row["rung"] == "gate-0-con=1":
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_probe("needle-gate", target=TWIN, store=store, progress=Stop(), **SMALL)
    lying(each(lambda record: {"prompt_tokens": 1}))
    with pytest.raises(InvalidRun, match="other rows than it had committed"):
        gate(store)
    assert list((store.root / ".quarantine").iterdir())


def test_a_run_resumed_on_another_serve_says_that_it_is_stitched_and_gates_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stop(Silent):
        def finished(self, row: Any, *, resumed: bool = False) -> None:
            if row["rung"] == "gate-0-con=1":
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_probe("needle-gate", target=TWIN, store=store, progress=Stop(), **SMALL)
    real = _run.serve_facts
    monkeypatch.setattr(_run, "serve_facts", lambda target: real(target) | {"id": "serve-relaunched"})
    found = gate(store)
    first, second = found.verdict["serves"]
    assert first != second == "serve-relaunched" == found.serve["id"] and found.serve["stitched"] == [first]
    assert not found.verdict["ok"] and found.verdict["standing"] == "stitched from 2 serves"
    assert found.verdict["reasons"][0].startswith("stitched from 2 serves")
    with pytest.raises(GateFailed):
        run_probe("envelope", target=TWIN, store=store, concurrency=(1,), osl=4)


def test_the_canary_keeps_a_ladder_off_a_degraded_serve(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    from k3repro.probes import wave_monitor

    real = wave_monitor.run_wave

    async def degraded(target: Any, requests: Any, **options: Any) -> Any:
        records = await real(target, requests, **options)
        bad = options["wave"] == "canary-before-4"
        return each(lambda r: {"outcome": Outcome.TIMEOUT})(records) if bad else records

    monkeypatch.setattr(wave_monitor, "run_wave", degraded)
    with pytest.raises(InvalidRun, match="canary failed: 4 not completed: 4 timeout"):
        gate(store)


def test_ctrl_c_drains_the_wave_in_flight_and_leaves_a_run_that_resumes(store: Store) -> None:
    class Press(Silent):
        def __init__(self) -> None:
            self.notes: list[str] = []

        def started(self, rung: Any) -> None:
            if rung.name == "gate-1-con=4":
                os.kill(os.getpid(), signal.SIGINT)

        def note(self, text: str) -> None:
            self.notes.append(text)

    press = Press()
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(InvalidRun, match="stopped as asked"):
        run_probe("needle-gate", target=TWIN, store=store, progress=press, **SMALL)
    assert "nothing is in flight" in press.notes[0]
    assert signal.getsignal(signal.SIGINT) is before
    rungs: list[str] = []

    class Watch(Silent):
        def finished(self, row: Any, *, resumed: bool = False) -> None:
            rungs.append(row["rung"])

    assert run_probe("needle-gate", target=TWIN, store=store, progress=Watch(), **SMALL).verdict["ok"]
    assert "gate-1-con=4" in rungs


def test_hardware_is_recorded_as_said_and_makes_no_other_serve(store: Store) -> None:
    said, silent = gate(store, hardware="cpu"), gate(store, seed=1)
    assert said.serve["platform"] == "cpu" and "platform" not in silent.serve
    assert said.tier == "simulated", "a statement is no evidence"
    gated = run_probe("envelope", target=TWIN, store=store, concurrency=(1,), osl=4)
    assert gated.inputs == (said.seal,)


def test_bad_names_and_parameters_are_one_line(store: Store) -> None:
    with pytest.raises(UsageError, match="no probe 'speed'"):
        run_probe("speed", target=TWIN, store=store)
    with pytest.raises(UsageError, match="no parameter wave"):
        run_probe("envelope", target=TWIN, store=store, wave=3)
    with pytest.raises(UsageError, match="two output lengths"):
        estimate_probe("osl-sweep", osl=(16,))
    json.dumps(estimate_probe("envelope"))
