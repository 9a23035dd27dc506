"""Servers and people that get it wrong: what a whole probe says of each, in one line and one exit code."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from lies import Lie, each

from k3repro.client import Request, open_target, run_wave, zero_server
from k3repro.errors import InvalidRun
from k3repro.probes import run_probe
from k3repro.probes.checks import summarise
from k3repro.probes.lateness import allowed_s, decode_s
from k3repro.probes.plan import Rung
from k3repro.probes.wave_monitor import Headroom, monitored_wave
from k3repro.store import Store

TWIN = "twin:mi325x"
GATE: dict[str, Any] = {"context": 1000, "concurrency": (1, 2, 4, 8)}


def test_a_wrong_model_name_is_named_and_not_taken_for_missing_usage(store: Store) -> None:
    with pytest.raises(InvalidRun, match="the first requests failed: failed_http: HTTP 404"):
        run_probe("needle-gate", target=TWIN, store=store, model="kimi-k4", **GATE)


def test_replies_that_carry_another_codeword_from_three_in_flight_on(
    store: Store, lying: Callable[[Lie], None]
) -> None:
    """llama.cpp, vLLM and SGLang reports: clean at one and two, other requests' codewords from three on."""

    def leak(records: list[Any]) -> list[Any]:
        if len(records) < 3:
            return records
        texts = [record.text for record in records]
        return each(lambda r: {"text": texts[0] if r.request_id.endswith("001") else r.text})(records)

    lying(leak)
    failed = run_probe("needle-gate", target=TWIN, store=store, **GATE)
    leaks = failed.rows("leaks")
    assert not failed.verdict["ok"] and failed.verdict["outcomes"] == {"hit": 13, "leak": 2}
    assert {(row["asker"], row["owner"]) for row in leaks} == {
        ("gate-2-con=4-001", "gate-2-con=4-000"), ("gate-3-con=8-001", "gate-3-con=8-000"),
    }  # fmt: skip
    assert all(row["code"] for row in leaks)
    by_wave = {row["concurrency"]: row["outcome"] for row in failed.rows("needles") if row["concurrency"] < 3}
    assert set(by_wave.values()) == {"hit"}


OFF: dict[str, tuple[Lie, str]] = {
    "usage missing": (each(lambda r: {"prompt_tokens": None, "completion_tokens": None}), "without usage"),
    "a rung of another size": (each(lambda r: {"prompt_tokens": 4840}), "off target"),
    "warm prefix cache": (each(lambda r: {"cached_tokens": r.prompt_tokens}), "prefix cache"),
}


@pytest.mark.parametrize("name", sorted(OFF))
def test_a_ladder_does_not_pass_on_what_it_did_not_send(
    store: Store, lying: Callable[[Lie], None], name: str
) -> None:
    lie, reason = OFF[name]
    lying(lie)
    found = run_probe("niah-ladder", target=TWIN, store=store, context=(2000,), sweep_context=())
    assert not found.verdict["ok"] and any(reason in text for text in found.verdict["reasons"])


def test_a_client_that_cannot_keep_up_says_that_it_was_measured() -> None:
    """A thousand streams at once from a server that answers at once: the client is the slow side."""
    requests = [Request(f"r{n}", "x", 256) for n in range(1024)]
    with zero_server() as port, open_target(f"http://127.0.0.1:{port}") as target:
        headroom = Headroom()
        records = target.run(monitored_wave, requests, headroom=headroom, concurrency=1024)
    rung = Rung("flood", 1024, 1024, 8, 256)
    row = summarise(rung, 0, records, headroom=headroom)
    allowed = allowed_s(decode_s(records))
    assert row["completed"] == 1024 and row["completion_tokens"] == 1024 * 256
    assert headroom.lag_s is not None  # however busy the machine is, a wave of this size says how late it was
    assert (headroom.lag_s > allowed) == any(reason.startswith("client-bound") for reason in row["reasons"])


def test_an_idle_client_is_not_blamed() -> None:
    quiet = Headroom(lags=[0.0002] * 600)
    busy = Headroom(lags=[0.0002] * 590 + [0.02] * 10)
    with open_target(TWIN) as target:
        records = target.run(run_wave, [Request("r", "hello", 4)], concurrency=1)
    rung = Rung("r", 1, 1, records[0].prompt_tokens or 1, 4)
    assert summarise(rung, 0, records, headroom=quiet)["valid"]
    assert "client-bound" in summarise(rung, 0, records, headroom=busy)["reasons"][0]
    assert Headroom(lags=[9.0]).lag_s is None  # too few ticks to speak of
    assert Headroom(lags=[0.001], watched_s=0.05).lag_s is None  # nor had they time to be more


def test_a_loop_that_never_came_round_is_late() -> None:
    """A client that blocks its own loop ticks too rarely for a quantile; that is no reason to be silent."""

    async def blocked() -> Headroom:
        headroom = Headroom()
        async with headroom.watch():
            await asyncio.sleep(0)
            time.sleep(0.3)
        return headroom

    headroom = asyncio.run(blocked())
    assert len(headroom.lags) < 10 and headroom.lag_s is not None and headroom.lag_s > 0.2


def test_rows_of_a_verdict_are_plain_data(store: Store) -> None:
    gate = run_probe("needle-gate", target=TWIN, store=store, **GATE)
    json.dumps(gate.verdict, allow_nan=False)
