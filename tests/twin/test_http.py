"""The HTTP driver on real sockets: it answers what an engine answers and stays up whatever it is sent."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from click.testing import CliRunner

from k3repro.cli.twin import twin
from k3repro.errors import MachineError
from k3repro.serve import parse_metrics
from k3repro.twin import Cluster, HttpDriver, platform, serve_http

Conversation = Callable[[int, HttpDriver], Awaitable[Any]]


def talk(conversation: Conversation, scale: float = 200.0) -> Any:
    async def run() -> Any:
        async with serve_http(Cluster(platform("mi325x"), 0), time_scale=scale) as (driver, port):
            result = await asyncio.wait_for(conversation(port, driver), 600)
            assert await send(port, b"GET /health HTTP/1.1\r\n\r\n") == b"200", "the server did not stay up"
        return result

    return asyncio.run(run())


async def raw(port: int, *parts: bytes, pause: float = 0.0, until: bytes = b"") -> bytes:
    """Send `parts`, read until `until` has come or the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for part in parts:
        writer.write(part)
        await asyncio.sleep(pause)
    got = b""
    while not until or until not in got:
        data = await reader.read(65536)
        if not data:
            break
        got += data
    writer.close()
    return got


async def send(port: int, request: bytes) -> bytes:
    """Status of the answer to one request."""
    return (await raw(port, request, until=b"\r\n\r\n")).split(b" ")[1]


def completion(**fields: Any) -> bytes:
    body = json.dumps({"model": "kimi-k3", "prompt": "hello", "max_tokens": 4, **fields}).encode()
    head = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    return head + b"Content-Length: %d\r\n\r\n" % len(body) + body


def test_unknown_methods_empty_bodies_and_nonsense() -> None:
    async def conversation(port: int, driver: HttpDriver) -> list[bytes]:
        requests = [
            b"FOO / HTTP/1.1\r\n\r\n",
            b"OPTIONS /v1/completions HTTP/1.1\r\n\r\n",
            b"HEAD /health HTTP/1.1\r\n\r\n",
            b"POST /tokenize HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 0\r\n\r\n",
            b"DELETE /nowhere HTTP/1.1\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 tls \r\n\r\n",
            b"GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
            b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 30_000 + b"\r\n",
            completion(),
        ]
        return [await send(port, request) for request in requests]

    assert talk(conversation) == [b"400", b"405", b"405", b"400", b"404", b"400", b"400", b"431", b"200"]


def test_head_has_no_body_and_only_metrics_knows_it() -> None:
    async def conversation(port: int, driver: HttpDriver) -> list[bytes]:
        paths = (b"/health", b"/v1/completions", b"/nowhere", b"/metrics")
        asked = b"".join(b"HEAD %s HTTP/1.1\r\n\r\n" % path for path in paths)
        got = await raw(port, asked, b"GET /version HTTP/1.1\r\nConnection: close\r\n\r\n")
        return got.split(b"\r\n\r\n")

    *heads, last = talk(conversation)
    assert [head.split(b" ")[1] for head in heads] == [b"405", b"405", b"404", b"200", b"200"]
    assert last.startswith(b'{"version"')


def test_an_upgrade_that_is_not_known_is_ignored() -> None:
    """As curl --http2 and Java's client ask for it; behind uvicorn 0.54 such a request loses its body too."""
    upgrade = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQ\r\n"

    async def conversation(port: int, driver: HttpDriver) -> list[bytes]:
        head, _, rest = completion().partition(b"\r\n")
        return [
            await raw(port, b"GET /version HTTP/1.1\r\n" + upgrade + b"\r\n"),
            await raw(port, head + b"\r\n" + upgrade + rest),
        ]

    version, lost = talk(conversation)
    assert version.startswith(b"HTTP/1.1 200") and version.endswith(b"}") and version.count(b"HTTP/1.1") == 1
    assert lost.startswith(b"HTTP/1.1 400") and b"Field required" in lost and lost.count(b"HTTP/1.1") == 1


def test_a_target_may_be_absolute_or_escaped_and_not_endless() -> None:
    async def conversation(port: int, driver: HttpDriver) -> list[bytes]:
        targets = (b"http://x:1/version?a=b", b"/v1/%6dodels", b"/health?" + b"x" * 30_000, b"*", b"http://x")
        asked = [await send(port, b"GET %s HTTP/1.1\r\n\r\n" % target) for target in targets]
        return [*asked, await send(port, b"GET /health?" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n")]

    assert talk(conversation) == [b"200", b"200", b"200", b"404", b"404", b"400"]


def test_a_client_that_pipelines_without_reading_is_held_up() -> None:
    async def conversation(port: int, driver: HttpDriver) -> tuple[bytes, int]:
        count = 2000
        asked = completion() + b"GET /version HTTP/1.1\r\n\r\n" * count
        asked += b"GET /ping HTTP/1.1\r\nConnection: close\r\n\r\n"
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(asked)
        return await reader.read(-1), count

    got, count = talk(conversation, scale=20.0)
    assert got.startswith(b"HTTP/1.1 200") and got.count(b'{"version"') == count
    assert got.count(b"HTTP/1.1 200") == count + 2


def test_a_name_with_quotes_keeps_the_metrics_readable() -> None:
    for name in ('a"b', "a\\b", 'x\\"y'):
        cluster = Cluster(platform("mi325x").with_overrides({"model": name}), 0)
        page = cluster.handle("GET", "/metrics", b"")
        assert isinstance(page, bytes)
        metrics = parse_metrics(page.decode().partition("\r\n\r\n")[2])
        assert {
            dict(sample.labels)["model_name"] for sample in metrics.named("vllm:num_requests_running")
        } == {name}


def test_requests_may_come_in_pieces_pipelined_or_with_expect() -> None:
    async def conversation(port: int, driver: HttpDriver) -> tuple[bytes, bytes, bytes]:
        one = completion()
        sliced = await raw(
            port, *(one[i : i + 40] for i in range(0, len(one), 40)), pause=0.001, until=b"usage"
        )
        both = await raw(port, one + completion(stream=True), until=b"[DONE]")
        head, _, body = one.partition(b"\r\n\r\n")
        expecting = await raw(
            port, head + b"\r\nExpect: 100-continue\r\n\r\n", body, pause=0.02, until=b"usage"
        )
        return sliced, both, expecting

    sliced, both, expecting = talk(conversation)
    assert sliced.startswith(b"HTTP/1.1 200") and b'"completion_tokens":4' in sliced
    assert both.index(b"text_completion") < both.index(b"data: ")
    assert expecting.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200")


def test_a_huge_body_is_refused_and_a_large_one_is_read() -> None:
    async def conversation(port: int, driver: HttpDriver) -> tuple[bytes, bytes]:
        large = await raw(port, completion(prompt="word " * 400_000), until=b"usage")
        head = b"POST /v1/completions HTTP/1.1\r\nContent-Length: 999999999999\r\n\r\n"
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head)
        got = b"HTTP/1.1 413"  # a client that still writes may see a reset instead
        with contextlib.suppress(ConnectionError):
            for _ in range(400):
                writer.write(b" " * 1_000_000)
                await writer.drain()
            got = await reader.read(100)
        writer.close()
        return large, got

    large, huge = talk(conversation, scale=1e5)
    assert b'"prompt_tokens":800000' in large
    assert huge.startswith(b"HTTP/1.1 413")


def test_a_client_that_goes_away_frees_its_slot() -> None:
    async def conversation(port: int, driver: HttpDriver) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(completion(max_tokens=100_000, stream=True, ignore_eos=True))
        await reader.readuntil(b"data: ")
        assert driver.cluster.core.running == 1
        writer.transport.abort()
        while driver.cluster.core.flights or driver.cluster.core.running:
            await asyncio.sleep(0.01)

    talk(conversation)


def test_a_slow_client_reads_after_the_server_has_counted_the_answer() -> None:
    """Over HTTP too: the server is done and says so, the client still waits; the bytes are the same."""

    async def eight(port: int) -> list[bytes]:
        asked = (raw(port, completion(prompt=f"p{n}", stream=True), until=b"[DONE]") for n in range(8))
        return [got.partition(b"\r\n\r\n")[2] for got in await asyncio.gather(*asked)]

    async def run(defect: str) -> tuple[bool, list[bytes]]:
        chosen = platform("mi325x").with_overrides({"defect": defect})
        async with serve_http(Cluster(chosen, 0), time_scale=20.0) as (_, port):
            asking = asyncio.ensure_future(eight(port))
            finished = 0.0
            while finished < 8:
                await asyncio.sleep(0.005)
                page = await raw(port, b"GET /metrics HTTP/1.1\r\nConnection: close\r\n\r\n")
                finished = parse_metrics(page.decode()).total("vllm:request_success") or 0.0
            return asking.done(), await asking

    late, slow = asyncio.run(run("slow-client=1"))
    _, clean = asyncio.run(run(""))
    assert not late
    assert [body.count(b"data: ") for body in slow] == [body.count(b"data: ") for body in clean]
    assert all(body.endswith(b"[DONE]\n\n\r\n0\r\n\r\n") for body in slow)


def test_half_open_connections_do_not_hold_the_others_up() -> None:
    async def conversation(port: int, driver: HttpDriver) -> bytes:
        halves = [await asyncio.open_connection("127.0.0.1", port) for _ in range(100)]
        for index, (_, writer) in enumerate(halves):
            writer.write(completion()[: 1 + index])
        answer = await send(port, completion())
        for _, writer in halves:
            writer.close()
        return answer

    assert talk(conversation) == b"200"


def test_a_fault_inside_is_a_500_and_the_server_stays_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    async def conversation(port: int, driver: HttpDriver) -> bytes:
        with monkeypatch.context() as patch:
            patch.setattr(driver.cluster, "_generate", broken)
            return await raw(port, completion(), until=b"}}")

    got = talk(conversation)
    assert got.startswith(b"HTTP/1.1 500") and b"InternalServerError" in got


def test_a_port_in_use_is_one_line() -> None:
    async def twice() -> None:
        cluster = Cluster(platform("mi325x"), 0)
        async with serve_http(cluster) as (_, port), serve_http(cluster, port=port):
            raise AssertionError

    with pytest.raises(MachineError, match="--port"):
        asyncio.run(twice())


def test_the_command_serves_until_it_is_told_to_stop() -> None:
    program = "import sys; from k3repro.cli import main; main(sys.argv[1:])"
    arguments = ["twin", "serve", "--platform", "mi300x", "--port", "0", "--json"]
    command = [sys.executable, "-c", program, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        facts = json.loads(process.stdout.readline())
        port = int(facts["url"].rpartition(":")[2])
        assert facts["tier"] == "simulated"
        with socket.create_connection(("127.0.0.1", port), 5) as link:
            link.sendall(b"GET /version HTTP/1.1\r\nConnection: close\r\n\r\n")
            assert b"k3repro-twin" in b"".join(iter(lambda: link.recv(4096), b""))
        process.send_signal(signal.SIGTERM)
        assert process.wait(600) == 0


def test_bad_options_are_usage_errors() -> None:
    run = CliRunner().invoke
    for options in (
        ["--platform", "h100"],
        ["--platform", "mi325x", "--set", "x"],
        ["--platform", "mi325x", "--time-scale", "nan"],
    ):
        result = run(twin, ["serve", *options])
        assert getattr(result.exception, "exit_code", result.exit_code) == 2
    assert "publication" in run(twin, ["platforms"]).output
    assert set(json.loads(run(twin, ["platforms", "--json"]).output)) == {"mi300x", "mi325x"}


def test_times_of_the_twin_are_the_laws_whatever_the_wall_clock_does() -> None:
    """Read from the twin's own counters: simulated seconds do not depend on how late a callback runs."""

    async def conversation(port: int, driver: HttpDriver) -> str:
        for tokens in (16, 256):
            await raw(
                port, completion(prompt=[120] * 1024, max_tokens=tokens, ignore_eos=True), until=b"usage"
            )
        return (await raw(port, b"GET /metrics HTTP/1.1\r\nConnection: close\r\n\r\n")).decode()

    async def run() -> str:
        short = {"jitter_ppm": "0", "step_longest_ps": "0", "step_context_ps": "0", "prefill_pair_fs": "0"}
        spec = platform("mi325x").with_overrides(short)
        async with serve_http(Cluster(spec, 0), time_scale=500) as (driver, port):
            return await conversation(port, driver)

    metrics = parse_metrics(asyncio.run(run()).partition("\r\n\r\n")[2])
    total = sum(sample.value for sample in metrics.named("vllm:e2e_request_latency_seconds_sum"))
    assert total == pytest.approx(2 * 0.97 + (16 + 256) * 0.074)
    assert metrics.largest("process_start_time_seconds")
