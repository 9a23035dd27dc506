"""The client against real sockets: hostile servers, kept connections, unreachable addresses, a proxy before
the twin.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator

import pytest
from client_scripts import HEAD, ending, token

from k3repro.client import Outcome, Request, open_target, run_wave, wave_load
from k3repro.errors import TargetError
from k3repro.store._tier import tier_of
from k3repro.twin import Cluster, platform, serve_http

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
MODELS = json.dumps({"data": [{"id": "m"}]}).encode()
GOOD = HEAD + token(" a", "length") + ending(1)


@contextlib.contextmanager
def in_thread(start: Callable[[asyncio.Event], Awaitable[None]], ready: list[int]) -> Iterator[int]:
    """Run an asyncio server in a thread; `start` appends its port to `ready` and waits for the event."""
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()
    thread = threading.Thread(target=lambda: loop.run_until_complete(start(stop)))
    thread.start()
    while not ready and thread.is_alive():
        thread.join(0.01)
    try:
        yield ready[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(600)
        loop.close()


@contextlib.contextmanager
def raw_server(handler: Handler) -> Iterator[int]:
    ready: list[int] = []

    async def start(stop: asyncio.Event) -> None:
        server = await asyncio.start_server(handler, "127.0.0.1", 0)
        ready.append(server.sockets[0].getsockname()[1])
        await stop.wait()
        server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0.01)

    with in_thread(start, ready) as port:
        yield port


@contextlib.contextmanager
def twin_server(scale: float = 50.0, name: str = "mi325x", seed: int = 0) -> Iterator[int]:
    ready: list[int] = []

    async def start(stop: asyncio.Event) -> None:
        async with serve_http(Cluster(platform(name), seed), time_scale=scale) as (_, port):
            ready.append(port)
            await stop.wait()

    with in_thread(start, ready) as port:
        yield port


def server_that(*answers: bytes, close: bool = False, hang: bool = False) -> Handler:
    """Answers the questions of `open_target`, then completions with `answers` in turn."""
    turn = iter(answers)

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                if head.startswith(b"GET"):
                    body = MODELS if b"/v1/models" in head else b"{}"
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
                    continue
                size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
                if await reader.readexactly(size) == b"{}":  # which endpoint is there?
                    status = b"404 Not Found" if b"/no-such-" in head else b"400 Bad Request"
                    writer.write(b"HTTP/1.1 %s\r\nContent-Length: 0\r\n\r\n" % status)
                    continue
                writer.write(next(turn, answers[-1]))
                await writer.drain()
                if hang:
                    await asyncio.sleep(60)
                if close:
                    break
        writer.close()

    return handle


def ask(
    port: int, count: int = 1, concurrency: int = 1, **options: float
) -> list[tuple[Outcome, str | None]]:
    with open_target(f"http://127.0.0.1:{port}") as target:
        requests = [Request(f"r{index}", "x", 1) for index in range(count)]
        records = target.run(run_wave, requests, concurrency=concurrency, **options)
        assert target.clock == "wall"
        assert tier_of(target.serve) == "unverified"
    return [(record.outcome, record.error) for record in records]


def test_connections_are_kept_and_reused() -> None:
    opened = []

    async def counting(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        opened.append(1)
        await server_that(GOOD)(reader, writer)

    with raw_server(counting) as port:
        assert ask(port, 40, 4) == [(Outcome.COMPLETED, None)] * 40
    assert len(opened) <= 5


def test_a_server_that_closes_after_every_answer() -> None:
    with raw_server(server_that(GOOD, close=True)) as port:
        answers = ask(port, 6, 2)
    assert [outcome for outcome, _ in answers] == [Outcome.COMPLETED] * 6
    assert {error for _, error in answers} <= {None, "sent again: the server had closed the kept connection"}


def test_keep_alive_closed_in_the_stream() -> None:
    cut = HEAD + token(" a")
    with raw_server(server_that(cut, close=True)) as port:
        (outcome, error), *_ = ask(port, 2)
    assert outcome is Outcome.TRUNCATED and error == "the connection closed"


def test_a_server_that_never_ends() -> None:
    with raw_server(server_that(HEAD + token(" a"), hang=True)) as port:
        assert ask(port, stall_s=0.2)[0][0] is Outcome.STALLED
    with raw_server(server_that(HEAD, hang=True)) as port:
        assert ask(port, timeout_s=0.2)[0][0] is Outcome.TIMEOUT


def test_one_bad_answer_does_not_spoil_the_next() -> None:
    broken = HEAD + b"zz\r\n"
    with raw_server(server_that(GOOD, broken, GOOD)) as port:
        outcomes = [outcome for outcome, _ in ask(port, 3)]
    assert outcomes == [Outcome.COMPLETED, Outcome.FAILED_IN_STREAM, Outcome.COMPLETED]


def test_a_server_that_dies_between_waves_is_failed_http_and_names_the_cause() -> None:
    request = Request("r", "x", 1)
    with raw_server(server_that(GOOD)) as port:
        target = open_target(f"http://127.0.0.1:{port}")
        (record,) = target.run(run_wave, [request], concurrency=1)
        assert record.outcome is Outcome.COMPLETED
    with target:
        (record,) = target.run(run_wave, [request], concurrency=1)
    assert record.outcome is Outcome.FAILED_HTTP and record.http_status is None
    assert record.error == "cannot connect: Connection refused"


def test_unreachable_is_one_line_and_exit_code_three() -> None:
    with contextlib.closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(TargetError) as caught:
        open_target(f"http://127.0.0.1:{port}")
    assert caught.value.exit_code == 3
    assert f"http://127.0.0.1:{port}" in str(caught.value) and "\n" not in str(caught.value)


def test_a_router_without_models_needs_the_name() -> None:
    async def discovery(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, asyncio.CancelledError):
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    with raw_server(discovery) as port:
        with pytest.raises(TargetError, match="503.*--model NAME"):
            open_target(f"http://127.0.0.1:{port}")
        with open_target(f"http://127.0.0.1:{port}", model="kimi-k3") as target:
            assert target.model == "kimi-k3"


def test_a_server_that_says_nothing_is_not_waited_for() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        writer.close()

    with raw_server(silent) as port, pytest.raises(TargetError, match="no answer within"):
        open_target(f"http://127.0.0.1:{port}", timeout_s=0.1)


def masking_proxy(port: int) -> Handler:
    """Forwards only completions, rewrites Host and hides Server, /version, /v1/models and /metrics."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                if head.startswith(b"GET"):
                    body = (
                        b'{"version":"0.32.0"}'
                        if b"/version" in head
                        else MODELS.replace(b'"m"', b'"kimi-k3"')
                    )
                    if b"/metrics" in head:
                        body = b""
                    writer.write(
                        b"HTTP/1.1 200 OK\r\nServer: vllm\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
                    )
                    continue
                size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
                body = await reader.readexactly(size)
                back, forth = await asyncio.open_connection("127.0.0.1", port)
                lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"host:")]
                forth.write(lines[0] + b"\r\nHost: real-engine\r\n" + b"\r\n".join(lines[1:]) + body)
                with contextlib.closing(forth):
                    while part := await back.read(65536):
                        writer.write(part.replace(b"server: k3repro-twin\r\n", b"server: vllm\r\n"))
                        if part.endswith(b"0\r\n\r\n"):
                            break
        writer.close()

    return handle


def test_a_proxy_that_hides_the_twin_does_not_hide_it() -> None:
    with (
        twin_server() as port,
        raw_server(masking_proxy(port)) as front,
        open_target(f"http://127.0.0.1:{front}") as target,
    ):
        assert tier_of(target.serve) == "unverified"
        (record,) = target.run(run_wave, [Request("r", "x", 2)], concurrency=1)
        assert record.outcome is Outcome.COMPLETED
        assert tier_of(target.serve) == "simulated"


def test_both_drivers_say_the_same() -> None:
    requests = [Request(f"r{index}", f"prompt {index}", 12, chat=False) for index in range(6)]
    requests.append(Request("c", [{"role": "user", "content": "hi"}], 7, chat=True))
    with open_target("twin:mi300x", seed=5) as target:
        virtual = target.run(run_wave, requests, concurrency=3)
    with twin_server(name="mi300x", seed=5) as port, open_target(f"http://127.0.0.1:{port}") as target:
        wall = target.run(run_wave, requests, concurrency=3)
    assert [record.text for record in wall] == [record.text for record in virtual]
    assert [record.completion_tokens for record in wall] == [record.completion_tokens for record in virtual]
    assert {record.outcome for record in wall} == {Outcome.COMPLETED}
    assert wave_load(wall, 3).peak == 3
