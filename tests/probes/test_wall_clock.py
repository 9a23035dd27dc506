"""Probes against the twin over HTTP: evidence survives, runs resume by skipping, prompts never repeat."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from k3repro.client import Target
from k3repro.errors import InvalidRun
from k3repro.probes import Silent, run_probe
from k3repro.store import Store

SMALL = {"context": 1000, "concurrency": (1, 4)}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    code = "from k3repro.cli import main; import sys; main(sys.argv[1:])"
    command = [sys.executable, "-c", code, "twin", "serve", "--platform", "mi325x"]
    command += ["--port", "0", "--time-scale", "200", "--json"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    line = json.loads(server.stdout.readline())
    yield next(value for value in line.values() if str(value).startswith("http"))
    server.terminate()
    server.wait(600)
    server.stdout.close()


class Watch(Silent):
    """Remembers what was sent and what was resumed, and aborts a wave once if asked."""

    def __init__(self, abort: str = "") -> None:
        self.abort = abort
        self.resumed: list[str] = []
        self.sent: list[str] = []

    def started(self, rung: Any) -> None:
        self.sent.append(rung.name)

    def finished(self, row: Any, *, resumed: bool = False) -> None:
        if resumed:
            self.resumed.append(row["rung"])


def test_an_aborted_run_marks_the_serve_suspect_and_resumes_after_a_canary(
    url: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Target.run

    def aborted(self: Target, function: Any, *arguments: Any, **options: Any) -> Any:
        if options.get("wave") == "gate-1-con=4":
            raise KeyboardInterrupt
        return real(self, function, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Target, "run", aborted)
        with pytest.raises(InvalidRun, match="aborted; the serve is suspect"):
            run_probe("needle-gate", target=url, store=store, **SMALL)
    watch = Watch()
    gate = run_probe("needle-gate", target=url, store=store, progress=watch, **SMALL)
    assert gate.verdict["ok"], gate.verdict["reasons"]
    assert watch.resumed == [
        "calibration",
        "warm-up-before",
        "canary-before-1",
        "canary-before-4",
        "gate-0-con=1",
    ]
    assert [name for name in watch.sent if name.startswith("canary-recovered")] != []
    assert "gate-1-con=4" in watch.sent and "gate-0-con=1" not in watch.sent
    rows = {row["wave"]: row for row in gate.rows("requests")}
    assert rows["gate-1-con=4"]["sent_ns"] > rows["gate-0-con=1"]["done_ns"]
    for row in gate.rows("requests"):  # every moment moves with the resumed run's clock, whatever its column
        moments = {name: row[name] for name in row if name.endswith("_ns") and row[name] is not None}
        assert row["sent_ns"] <= row["first_token_ns"] <= row["first_answer_ns"] <= row["last_token_ns"], row
        assert max(moments.values()) == row["done_ns"]


def test_over_http_the_twin_is_still_simulated_and_prompts_carry_a_nonce(url: str, store: Store) -> None:
    first = run_probe("needle-gate", target=url, store=store, **SMALL)
    second = run_probe("needle-gate", target=url, store=store, seed=1, **SMALL)
    assert first.tier == second.tier == "simulated" and first.clock == "wall"
    nonces = {artifact.rows("construction")[0]["nonce"] for artifact in (first, second)}
    assert len(nonces) == 2 and "" not in nonces
    assert first.serve["instrument"]["rate_per_s"] > 0 and first.serve["id"] == second.serve["id"]
    ladder = run_probe("envelope", target=url, store=store, concurrency=(2,), osl=8)
    assert ladder.inputs[0] in {first.seal, second.seal}
    assert all(0 <= row["client_share"] < 0.5 for row in ladder.rows("rungs"))
