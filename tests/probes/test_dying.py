"""A server that dies at any moment: what was measured is kept, nothing of it is measured again."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest
from answering import Answering

from k3repro.errors import InvalidRun, TargetError
from k3repro.probes import Silent, run_probe
from k3repro.store import Store

LADDER: dict[str, Any] = {"isl": 60, "osl": 4, "concurrency": (1, 2, 3), "waves": 2}
DEATHS = 20


class Dying(Answering):
    """Answers `lifetime` times, then calls `die`."""

    lifetime = 10**9
    die: Callable[[], None]

    def post(self, asked: dict[str, Any]) -> bytes:
        self.lifetime -= 1
        if self.lifetime < 0:
            self.die()
            raise asyncio.CancelledError
        return super().post(asked)


class Mortal:
    """The answering server on one port; dies with all its connections when its answers are used up."""

    def __init__(self) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.answers = Dying()

    def __enter__(self) -> Mortal:
        self.loop, self.stop, ready = asyncio.new_event_loop(), asyncio.Event(), threading.Event()
        self.answers.die = self.stop.set
        self.thread = threading.Thread(target=lambda: self.loop.run_until_complete(self.serve(ready)))
        self.thread.start()
        assert ready.wait(600)
        return self

    def __exit__(self, *_: object) -> None:
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.stop.set)
        self.thread.join(600)
        self.loop.close()

    async def serve(self, ready: threading.Event) -> None:
        server = await asyncio.start_server(self.handle, "127.0.0.1", self.port)
        ready.set()
        await self.stop.wait()
        server.close()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        await asyncio.sleep(0.02)

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await self.answers.handle(reader, writer)
        writer.transport.abort()


class Diary(Silent):
    def __init__(self) -> None:
        self.measured: list[str] = []

    def finished(self, row: Any, *, resumed: bool = False) -> None:
        if not resumed:
            self.measured.append(row["rung"])


def attempt(mortal: Mortal, store: Store, diary: Diary, lifetime: int) -> Any:
    mortal.answers.lifetime = lifetime
    with mortal:
        return run_probe(
            "envelope", target=f"http://127.0.0.1:{mortal.port}", store=store, unsafe=True, progress=diary,
            tokenizer="none", **LADDER,
        )  # fmt: skip


def test_killed_at_twenty_moments_no_finished_rung_is_measured_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("k3repro.probes._run.instrument", lambda _: None)
    diary, draw, died, done = Diary(), random.Random(21), 0, None
    mortal = Mortal()
    while died < DEATHS:
        try:
            done = attempt(mortal, store, diary, draw.randrange(1, 9))
            break
        except (TargetError, InvalidRun) as error:
            died += 1
            assert "kept" in str(error) or not diary.measured or "calibration" in str(error)
    done = done or attempt(mortal, store, diary, 10**9)
    assert died >= 5
    assert len(diary.measured) == len(set(diary.measured)), "a finished rung was measured again"
    assert {row["rung"] for row in done.rows("rungs")} >= {f"con={c}#{w}" for c in (1, 2, 3) for w in (0, 1)}
    assert all(row["valid"] for row in done.rows("rungs")), "a rung that the death cut was kept"
    assert done.verdict["reasons"] == ["unsafe: measured without a passing needle-gate"]


@pytest.mark.parametrize(
    ("status", "words"),
    [(401, r"HTTP 401.*K3REPRO_API_KEY"), (503, r"HTTP 503.*/health"), (404, r"HTTP 404.*--endpoint")],
)
def test_a_refusal_of_everything_names_status_cause_and_option(
    store: Store, monkeypatch: pytest.MonkeyPatch, status: int, words: str
) -> None:
    monkeypatch.setattr("k3repro.probes._run.instrument", lambda _: None)

    def refuse(self: Dying, asked: dict[str, Any]) -> bytes:
        return b'HTTP/1.1 %d X\r\nContent-Length: 16\r\n\r\n{"error": "nope"' % status

    make: Callable[..., Any] = refuse
    monkeypatch.setattr(Dying, "post", make)
    with pytest.raises(TargetError, match=words):
        attempt(Mortal(), store, Diary(), 10**9)
