"""Waves on a scripted server in virtual time: numbers that can be worked out by hand."""

from __future__ import annotations

import asyncio
import signal
import statistics
import subprocess
import sys
import threading
import time

import pytest
from client_scripts import HEAD, MS, ScriptedTarget, after, ending, token

from k3repro.client import Outcome, Request, RequestRecord, wave_load
from k3repro.errors import TargetError, UsageError


def wave(count: int, tokens: int = 1) -> list[Request]:
    return [Request(f"r{index}", "x", tokens) for index in range(count)]


def test_queueing_in_the_client_counts_from_the_intended_start() -> None:
    """Due every 0.1 s, 0.5 s of service, one place: waits of 0 to 2.8 s, 1.4 s on average."""
    due = [Request(f"r{index}", "x", 1, intended_ns=index * 100 * MS) for index in range(8)]
    with ScriptedTarget(after(500)) as target:
        records = target.wave(due, concurrency=1)
    waits = [(record.sent_ns - record.intended_ns) / 1e9 for record in records]
    assert waits == pytest.approx([0.4 * index for index in range(8)])
    assert statistics.mean(waits) == pytest.approx(1.4)
    assert [record.e2e_s for record in records] == pytest.approx([0.5] * 8)
    assert statistics.mean(record.e2e_from_intended_s or 0 for record in records) == pytest.approx(1.9)
    assert records[7].ttft_from_intended_s == pytest.approx(3.3)


def test_a_request_is_not_sent_before_it_is_due() -> None:
    due = [Request(f"r{index}", "x", 1, intended_ns=index * 700 * MS) for index in range(4)]
    with ScriptedTarget(after(500)) as target:
        records = target.wave(due, concurrency=4)
    assert [record.sent_ns for record in records] == [record.intended_ns for record in records]


def test_sixty_tokens_at_five_milliseconds_whose_first_event_carries_five() -> None:
    def script(number: int) -> list[tuple[int, bytes]]:
        def usage(count: int) -> dict[str, object]:
            return {"usage": {"prompt_tokens": 1, "completion_tokens": count}}

        events = [(100 * MS, HEAD + token(" a b c d e", **usage(5)))]
        events += [((100 + 5 * i) * MS, token(" x", **usage(5 + i))) for i in range(1, 55)]
        return [*events, ((100 + 5 * 55) * MS, token(" z", "length", **usage(60)) + ending(60))]

    with ScriptedTarget(script) as target:
        (record,) = target.wave([Request("r", "x", 60, continuous_usage=True)], concurrency=1)
    assert (record.events, record.completion_tokens, record.first_event_tokens) == (56, 60, 5)
    assert record.ttft_s == pytest.approx(0.1)
    assert record.itl_s == pytest.approx(0.005)
    assert record.tpot_s == pytest.approx(0.005 * 55 / 59)


def test_ten_requests_never_reach_concurrency_sixteen() -> None:
    with ScriptedTarget(after(500)) as target:
        load = wave_load(target.wave(wave(10), concurrency=16), 16)
    assert (load.achieved, load.peak) == (10.0, 10)
    assert load.ratio == pytest.approx(10 / 16)


def test_the_plateau_leaves_out_ramp_and_drain() -> None:
    slow_last = lambda number: after(4000 if number == 11 else 500)(number)  # noqa: E731
    with ScriptedTarget(slow_last) as target:
        records = target.wave(wave(12), concurrency=4)
    load = wave_load(records, 4)
    assert load.achieved == 4.0
    assert load.mean_in_flight < 3
    assert load.mean_in_flight == pytest.approx(load.rate_per_s * load.residence_s)


def test_no_more_than_the_asked_requests_are_in_flight() -> None:
    with ScriptedTarget(lambda number: after(100 + 37 * (number % 5))(number)) as target:
        records = target.wave(wave(50), concurrency=7)
    assert wave_load(records, 7).peak == 7
    assert [record.request_id for record in records] == [f"r{index}" for index in range(50)]


def test_timeout_counts_from_send_and_stall_from_the_last_byte() -> None:
    first = (100 * MS, HEAD + token(" a"))
    cases = {
        Outcome.TIMEOUT: [(100 * MS, HEAD)],
        Outcome.STALLED: [first, (300 * MS, token(" b"))],
        Outcome.COMPLETED: [first, (2900 * MS, token(" b")), (5700 * MS, token(" c", "length") + ending(3))],
    }
    for outcome, script in cases.items():
        with ScriptedTarget(lambda number, script=script: script) as target:  # type: ignore[misc]
            (record,) = target.wave([Request("r", "x", 3)], concurrency=1, timeout_s=8, stall_s=3)
        assert record.outcome is outcome
        assert target.aborted == (outcome is not Outcome.COMPLETED)
        ended = {Outcome.TIMEOUT: 8000, Outcome.STALLED: 3300, Outcome.COMPLETED: 5700}[outcome]
        assert record.done_ns == ended * MS


def test_a_response_that_is_not_ended_after_done_is_still_over() -> None:
    body = HEAD + token(" a", "length") + ending(1).removesuffix(b"0\r\n\r\n")
    with ScriptedTarget(lambda number: [(100 * MS, body)]) as target:
        (record,) = target.wave(wave(1), concurrency=1, timeout_s=50, stall_s=5)
    assert record.outcome is Outcome.COMPLETED
    assert record.done_ns == 100 * MS


def test_a_stop_drains_what_is_in_flight_and_sends_nothing_more() -> None:
    with ScriptedTarget(after(500)) as target:

        def stop(record: RequestRecord) -> None:
            if record.request_id == "r3":
                target.stop()

        records = target.wave(wave(20), concurrency=4, on_record=stop)
    outcomes = [record.outcome for record in records]
    assert outcomes[:4] == [Outcome.COMPLETED] * 4
    assert outcomes.count(Outcome.CANCELLED) == 20 - outcomes.count(Outcome.COMPLETED) >= 12
    assert target.aborted == 0


def test_a_stop_reaches_requests_that_are_not_due_yet() -> None:
    due = [Request("a", "x", 1, intended_ns=0), Request("b", "x", 1, intended_ns=900 * MS)]
    with ScriptedTarget(after(500)) as target:
        records = target.wave(due, concurrency=2, on_record=lambda record: target.stop())
    assert [record.outcome for record in records] == [Outcome.COMPLETED, Outcome.CANCELLED]


def test_cancelling_a_wave_aborts_what_is_in_flight() -> None:
    seen: list[RequestRecord] = []

    async def cut(target: ScriptedTarget) -> None:
        from k3repro.client import run_wave

        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1.2):
                await run_wave(target, wave(9), concurrency=3, on_record=seen.append)  # type: ignore[arg-type]

    with ScriptedTarget(after(500)) as target:
        target.run(cut(target))
    outcomes = [record.outcome for record in seen]
    assert outcomes.count(Outcome.COMPLETED) == 6
    assert outcomes.count(Outcome.CANCELLED) == 3
    assert target.aborted == 3


def test_an_error_in_a_callback_is_raised_and_not_swallowed() -> None:
    def broken(record: RequestRecord) -> None:
        raise RuntimeError("disk full")

    with ScriptedTarget(after(500)) as target:
        with pytest.raises(RuntimeError, match="disk full"):
            target.wave(wave(3), concurrency=2, on_record=broken)
        assert len(target.wave(wave(3), concurrency=2)) == 3


def test_an_interrupt_drains_first_and_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C is simulated where the waiting main thread would see it."""
    from k3repro.client import _runner

    seen: list[RequestRecord] = []
    started = threading.Event()

    class Interrupted(_runner.Future):  # type: ignore[type-arg,misc]
        hits = 0

        def result(self, timeout: float | None = None) -> object:
            if Interrupted.hits == 0:
                started.wait(600)
                Interrupted.hits = 1
                raise KeyboardInterrupt
            return super().result(timeout)

    def slow(record: RequestRecord) -> None:
        seen.append(record)
        started.set()
        time.sleep(0.02)

    monkeypatch.setattr(_runner, "Future", Interrupted)
    with ScriptedTarget(after(500)) as target, pytest.raises(KeyboardInterrupt):
        target.wave(wave(60), concurrency=2, on_record=slow)
    outcomes = {record.outcome for record in seen}
    assert outcomes == {Outcome.COMPLETED, Outcome.CANCELLED}
    assert len(seen) == 60 and target.aborted == 0


def test_virtual_time_refuses_the_outside_world() -> None:
    async def thread() -> None:
        await asyncio.to_thread(time.sleep, 0)

    async def socket() -> None:
        await asyncio.open_connection("127.0.0.1", 9)

    async def process() -> None:
        await asyncio.create_subprocess_exec("true")

    async def forever() -> None:
        await asyncio.Event().wait()

    with ScriptedTarget(after(1)) as target:
        for outside in (thread, socket, process):
            with pytest.raises(TargetError, match="virtual"):
                target.run(outside())
        with pytest.raises(TargetError, match="stands still"):
            target.run(forever())


def test_virtual_hours_take_no_time_and_are_exact() -> None:
    async def wait(target: ScriptedTarget) -> int:
        for _ in range(1000):
            await asyncio.sleep(3600)
        return target.now_ns()

    with ScriptedTarget(after(1)) as target:
        assert target.run(wait(target)) == 1000 * 3600 * 1_000_000_000


def test_limits_that_are_no_seconds_and_closed_targets_are_refused() -> None:
    with ScriptedTarget(after(1)) as target:
        assert target.wave([], concurrency=3) == []
        for bad in (0, -1, float("inf"), float("nan")):
            with pytest.raises(UsageError, match="seconds"):
                target.wave(wave(1), concurrency=1, timeout_s=bad)
            with pytest.raises(UsageError, match="seconds"):
                target.wave(wave(1), concurrency=1, stall_s=bad)
    with pytest.raises(TargetError, match="closed"):
        target.wave(wave(1), concurrency=1)


INTERRUPTED = """
import time
from k3repro.client import Request, open_target, run_wave
seen = []
def slow(record):
    seen.append(record.outcome.value)
    print("one", flush=True)
    time.sleep(0.01)
with open_target("twin:mi325x") as target:
    try:
        requests = [Request(f"r{i}", "x", 2) for i in range(150)]
        target.run(run_wave, requests, concurrency=4, on_record=slow)
    except KeyboardInterrupt:
        kinds = set(seen) <= {"completed", "cancelled"}
        print("interrupted", len(seen), seen.count("completed") < 150, kinds)
"""


def test_a_real_interrupt_drains_and_is_raised_in_the_caller() -> None:
    with subprocess.Popen([sys.executable, "-c", INTERRUPTED], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.stdout.read().splitlines()[-1] == "interrupted 150 True True"
        assert process.wait(600) == 0


def test_an_interrupt_that_the_coroutine_raises_itself_ends_the_run() -> None:
    async def interrupted() -> None:
        raise KeyboardInterrupt

    with ScriptedTarget(after(1)) as target:
        with pytest.raises(KeyboardInterrupt):
            target.run(interrupted())
        assert target.wave([Request("r", "x", 1)], concurrency=1)[0].outcome is Outcome.COMPLETED
