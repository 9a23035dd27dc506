"""A scripted server in virtual time: what each request gets back, and when, is written in the test."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

from k3repro.client import Receiver, Request, RequestRecord, run_wave
from k3repro.client._clock import VirtualLoop
from k3repro.client._encode import Encoder
from k3repro.client._runner import Runner

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
MS = 1_000_000
Script = Callable[[int], Sequence[tuple[int, bytes]]]  # request number -> (ns after send, bytes)


def chunk(document: dict[str, Any] | str) -> bytes:
    text = document if isinstance(document, str) else json.dumps(document)
    data = b"data: " + text.encode() + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(data), data)


def token(text: str, finish: str | None = None, **more: Any) -> bytes:
    return chunk({"choices": [{"index": 0, "text": text, "finish_reason": finish}], **more})


def ending(count: int) -> bytes:
    usage = {"prompt_tokens": 1, "completion_tokens": count}
    return chunk({"choices": [], "usage": usage}) + chunk("[DONE]") + b"0\r\n\r\n"


def after(service_ms: int, tokens: int = 1) -> Script:
    """Every request is answered whole, `service_ms` after it was sent."""
    body = HEAD + b"".join(token(" x") for _ in range(tokens - 1)) + token(" x", "length") + ending(tokens)
    return lambda number: [(service_ms * MS, body)]


class ScriptedTarget:
    """What `run_wave` needs of a target, over a script."""

    def __init__(self, script: Script) -> None:
        self.loop = VirtualLoop()
        self.now_ns = self.loop.now_ns
        self.stopping = False
        self.transport = self
        self.aborted = 0
        self.opened = 0
        self.encode = Encoder("scripted").completion
        self._script = script
        self._runner = Runner(self.loop)

    def open(self, request: bytes, receiver: Receiver) -> ScriptedTarget.Link:
        number, self.opened = self.opened, self.opened + 1
        return ScriptedTarget.Link(self, receiver, self._script(number))

    async def prepare(self, count: int) -> None:
        """Nothing to prepare."""

    def observe(self, record: RequestRecord) -> None:
        """Nothing to learn."""

    def stop(self) -> None:
        self.stopping = True

    def wave(self, requests: Sequence[Request], **options: Any) -> list[RequestRecord]:
        self.stopping = False
        return self._runner.run(run_wave(self, requests, **options), self.stop)  # type: ignore[arg-type]

    def run(self, coroutine: Any) -> Any:
        return self._runner.run(coroutine, self.stop)

    def __enter__(self) -> ScriptedTarget:
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.close()

    class Link:
        def __init__(
            self, target: ScriptedTarget, receiver: Receiver, script: Sequence[tuple[int, bytes]]
        ) -> None:
            self.target = target
            now = target.now_ns()
            self.timers: list[asyncio.TimerHandle] = [
                target.loop.call_at((now + delay) / 1e9, self.deliver, receiver, now + delay, data)
                for delay, data in script
            ]

        def deliver(self, receiver: Receiver, when: int, data: bytes) -> None:
            if data:
                receiver.feed([(when, data)])
            else:
                receiver.lost(when, "the connection closed")

        def flush(self) -> None:
            """Nothing is held back."""

        def abort(self) -> None:
            self.target.aborted += 1
            self.cancel()

        def release(self, keep_alive: bool) -> None:
            self.cancel()

        def cancel(self) -> None:
            for timer in self.timers:
                timer.cancel()
