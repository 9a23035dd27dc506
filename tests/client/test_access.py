"""Servers that want a key, a certificate, another endpoint or patience; and what is said when they refuse."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from client_scripts import HEAD, MS, ScriptedTarget, chunk, ending, token
from test_sockets import in_thread

from k3repro.client import Access, Outcome, Request, open_target, run_wave
from k3repro.errors import TargetError, UsageError

DATA = Path(__file__).parent / "data"
CHAT = (
    HEAD
    + chunk({"choices": [{"index": 0, "delta": {"content": " a"}, "finish_reason": "length"}]})
    + ending(1)
)
RESPONSES = (
    HEAD + chunk({"type": "response.output_text.delta", "delta": " a"})
    + chunk({"type": "response.completed", "response": {"usage": {"input_tokens": 1, "output_tokens": 1}}})
    + b"0\r\n\r\n"
)  # fmt: skip


class Server:
    """Answers as `rules` say: path -> (status, headers, body); every request it got is kept."""

    def __init__(
        self, rules: dict[str, tuple[int, str, bytes]], stream: dict[str, bytes] | None = None
    ) -> None:
        self.rules, self.streams = rules, stream or {}
        self.heads: list[str] = []
        self.bodies: list[bytes] = []

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = head.lower().partition("content-length: ")[2].partition("\r\n")[0]
                body = await reader.readexactly(int(length or 0))
                self.heads.append(head)
                self.bodies.append(body)
                if head.startswith("CONNECT"):
                    await self.tunnel(head.split()[1], reader, writer)
                    return
                writer.write(self.answer(head, body))
        writer.close()

    def answer(self, head: str, body: bytes) -> bytes:
        verb, path, _ = head.split(" ", 2)
        if path in self.streams and verb == "POST" and len(body) > 2:
            return self.streams[path]
        status, headers, text = self.rules.get(path, (404, "", b'{"detail": "Not Found"}'))
        if path in self.streams:
            status, text = 405 if verb == "GET" else 400, b"{}"
        return f"HTTP/1.1 {status} X\r\n{headers}Content-Length: {len(text)}\r\n\r\n".encode() + text

    async def tunnel(self, where: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", int(where.rpartition(":")[2]))
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")

        async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            while data := await source.read(65536):
                sink.write(data)
            sink.close()

        await asyncio.gather(pump(reader, far_writer), pump(far_reader, writer), return_exceptions=True)


MODELS = {"/v1/models": (200, "", json.dumps({"data": [{"id": "m"}]}).encode())}
GOOD = HEAD + token(" a", "length") + ending(1)


@contextlib.contextmanager
def serving(server: Server, tls: ssl.SSLContext | None = None) -> Iterator[int]:
    ready: list[int] = []

    async def start(stop: asyncio.Event) -> None:
        listening = await asyncio.start_server(server.handle, "127.0.0.1", 0, ssl=tls)
        ready.append(listening.sockets[0].getsockname()[1])
        await stop.wait()
        listening.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0.01)

    with in_thread(start, ready) as port:
        yield port


def ask(url: str, access: Access | None = None, model: str | None = None) -> tuple[str, str, Outcome]:
    with open_target(url, access=access, model=model) as target:
        (record,) = target.run(run_wave, [Request("r", "x", 1)], concurrency=1, wave="w")
    return target.endpoint, record.text, record.outcome


@pytest.mark.parametrize(
    ("status", "headers", "body", "words"),
    [
        (401, "", b'{"error": {"message": "Missing key"}}', r"HTTP 401: Missing key\. Set \$K3REPRO_API_KEY"),
        (403, "", b"<html><h1>Forbidden</h1>", r"HTTP 403: Forbidden\. The key is not allowed"),
        (
            404,
            "",
            b'{"detail": "Not Found"}',
            r"HTTP 404: Not Found, so the model's name is unknown.*--model NAME",
        ),
        (429, "Retry-After: 9\r\n", b"slow down", r"HTTP 429: slow down\. The server limits the rate"),
        (500, "", b"", r"HTTP 500\. The server failed"),
        (503, "", b"loading", r"HTTP 503: loading, so the model.*wait until /health.*--model NAME"),
    ],
)
def test_a_server_that_refuses_is_told_by_status_cause_and_option(
    status: int, headers: str, body: bytes, words: str
) -> None:
    with (
        serving(Server({"/v1/models": (status, headers, body)})) as port,
        pytest.raises(TargetError, match=words),
    ):
        open_target(f"http://127.0.0.1:{port}")


@pytest.mark.parametrize(
    ("path", "answer", "name"),
    [
        ("/v1/completions", GOOD, "completions"),
        ("/v1/chat/completions", CHAT, "chat"),
        ("/v1/responses", RESPONSES, "responses"),
    ],
)
def test_the_endpoint_that_answers_is_used(path: str, answer: bytes, name: str) -> None:
    server = Server(MODELS, {path: answer})
    with serving(server) as port:
        assert ask(f"http://127.0.0.1:{port}/v1/chat/completions") == (name, " a", Outcome.COMPLETED)
    sent = json.loads(server.bodies[-1])
    field = {"completions": "prompt", "chat": "messages", "responses": "input"}[name]
    assert field in sent and sent["stream"] is True


def test_where_several_answer_completions_is_used_unless_asked_otherwise() -> None:
    server = Server(MODELS, {"/v1/completions": GOOD, "/v1/chat/completions": CHAT})
    with serving(server) as port:
        url = f"http://127.0.0.1:{port}"
        assert ask(url)[0] == "completions" and ask(url, Access(endpoint="chat"))[0] == "chat"


class Odd(Server):
    """Streams chat; refuses a GET, and a document it cannot read, in a way of its own."""

    def __init__(self, get: int, unread: int) -> None:
        super().__init__(MODELS, {"/v1/chat/completions": CHAT})
        self.get, self.unread = get, unread

    def answer(self, head: str, body: bytes) -> bytes:
        verb, path, _ = head.split(" ", 2)
        if path in self.rules or (verb == "POST" and path in self.streams and b"messages" in body):
            return super().answer(head, body)
        status = self.get if verb == "GET" else self.unread if path in self.streams else 404
        return b"HTTP/1.1 %d X\r\nContent-Length: 2\r\n\r\n{}" % status


@pytest.mark.parametrize(
    ("get", "unread"),
    [
        (404, 404),
        (404, 400),
        (200, 404),
        (200, 400),
        (405, 404),
        (405, 422),
        (401, 404),
        (501, 501),
        (404, 200),
    ],
)
def test_an_endpoint_is_found_however_the_server_refuses(get: int, unread: int) -> None:
    """A page for every GET, a 405 for each, a 404 for a document it cannot read: chat is what it has."""
    with serving(Odd(get, unread)) as port:
        assert ask(f"http://127.0.0.1:{port}") == ("chat", " a", Outcome.COMPLETED)


def test_a_server_that_says_what_it_has_generates_nothing_to_be_found_out() -> None:
    server = Server(MODELS, {"/v1/completions": GOOD})
    with serving(server) as port, open_target(f"http://127.0.0.1:{port}") as target:
        assert target.endpoint == "completions"
    assert not any(b"max_tokens" in body for body in server.bodies)


def test_key_and_headers_reach_every_request_below_a_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("K3REPRO_API_KEY", "sk-1")
    monkeypatch.setenv("K3REPRO_HEADERS", "X-Team: blue\napi-key: k2")
    rules = {f"/deep/er{path}": rule for path, rule in MODELS.items()}
    server = Server(rules, {"/deep/er/v1/completions": GOOD})
    with serving(server) as port:
        assert ask(f"http://127.0.0.1:{port}/deep/er/v1/")[2] is Outcome.COMPLETED
    for head in server.heads:
        assert " /deep/er/" in head
        assert "Authorization: Bearer sk-1\r\nX-Team: blue\r\napi-key: k2\r\n" in head


def test_a_header_of_ones_own_replaces_the_bearer_token() -> None:
    assert Access(key="k", headers=(("authorization", "Basic x"),)).lines == "authorization: Basic x\r\n"


@pytest.mark.parametrize("text", ["no colon", ": empty"])
def test_what_is_no_header_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="Name: value"):
        Access.of_environment({"K3REPRO_HEADERS": text})


def test_a_line_break_in_a_key_is_refused() -> None:
    with pytest.raises(UsageError, match="line break"):
        Access(key="a\r\nX: y")


def certified() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(DATA / "self-signed.pem")
    return context


def test_a_self_signed_certificate_needs_its_file_or_insecure() -> None:
    server = Server(MODELS, {"/v1/completions": GOOD})
    with serving(server, certified()) as port:
        url = f"https://127.0.0.1:{port}"
        with pytest.raises(TargetError, match="certificate.*--ca-file FILE.*--insecure"):
            open_target(url)
        assert ask(url, Access(ca_file=str(DATA / "self-signed.pem")))[2] is Outcome.COMPLETED
        with pytest.warns(UserWarning, match="not checked"):
            assert ask(url, Access(insecure=True))[2] is Outcome.COMPLETED
        with pytest.raises(UsageError, match="--ca-file"):
            open_target(url, access=Access(ca_file="/nowhere.pem"))


@pytest.mark.parametrize("tls", [False, True])
def test_a_proxy_carries_http_and_tunnels_https(monkeypatch: pytest.MonkeyPatch, tls: bool) -> None:
    """The name resolves nowhere: only the proxy reaches it."""
    far = Server(MODELS, {"/v1/completions": GOOD})
    near = Server({f"http://far.test:8000{path}": rule for path, rule in MODELS.items()},
                  {"http://far.test:8000/v1/completions": GOOD})  # fmt: skip
    with serving(far, certified() if tls else None) as far_port, serving(near) as port:
        monkeypatch.setenv("https_proxy" if tls else "http_proxy", f"http://127.0.0.1:{port}")
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        access = Access(ca_file=str(DATA / "self-signed.pem"))
        url = f"https://far.test:{far_port}" if tls else "http://far.test:8000"
        assert ask(url, access)[2] is Outcome.COMPLETED
    assert near.heads[0].startswith(f"CONNECT far.test:{far_port}" if tls else "GET http://far.test:8000/")


def refused(after: str = "") -> bytes:
    return f"HTTP/1.1 429 X\r\n{after}Content-Length: 4\r\n\r\nbusy".encode()


def test_a_refusal_with_retry_after_is_sent_again_and_counted() -> None:
    answers = {0: refused("Retry-After: 7\r\n"), 1: refused()}
    with ScriptedTarget(lambda number: [(MS, answers.get(number, GOOD))]) as target:
        records = target.wave([Request("r", "x", 1), Request("s", "x", 1)], concurrency=1)
    first, second = records
    assert [(r.outcome, r.retries) for r in records] == [(Outcome.COMPLETED, 2), (Outcome.COMPLETED, 0)]
    assert first.intended_ns == 0 and first.sent_ns == pytest.approx((7 + 2) * 1e9, rel=0.01)
    assert second.sent_ns >= first.done_ns and first.ttft_s == pytest.approx(0.001)


def test_retries_are_bounded_and_so_is_what_a_server_may_ask_for() -> None:
    with ScriptedTarget(lambda _: [(MS, refused("Retry-After: 86400\r\n"))]) as target:
        (record,) = target.wave([Request("r", "x", 1)], concurrency=1)
    assert (record.outcome, record.retries, target.opened) == (Outcome.FAILED_HTTP, 3, 4)
    assert record.error == "HTTP 429 (Retry-After 86400): busy" and record.done_ns < 100e9


def test_a_stop_ends_the_waiting() -> None:
    with ScriptedTarget(lambda number: [(MS, refused("Retry-After: 5\r\n"))]) as target:
        target.loop.call_soon_threadsafe(lambda: target.loop.call_later(2, target.stop))
        records = target.wave([Request("r", "x", 1), Request("s", "x", 1)], concurrency=1)
    assert [record.outcome for record in records] == [Outcome.FAILED_HTTP, Outcome.CANCELLED]
    assert target.opened == 1


def test_a_serve_goes_by_what_was_found_and_by_no_address(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rules = MODELS | {"/version": (200, "", b'{"version": "0.32.0+cpu"}'),
                      "/metrics": (200, "", b"# TYPE vllm:num_requests_running gauge\n")}  # fmt: skip
    with serving(Server(rules, {"/v1/completions": GOOD})) as port:
        subjects = []
        for user in ("one", "one", "two"):
            monkeypatch.setenv("K3REPRO_STATE", str(tmp_path / user))
            with open_target(f"http://127.0.0.1:{port}") as target:
                subjects.append(target.subject)
                assert "127.0.0.1" not in json.dumps(target.serve)
    assert subjects[0] == subjects[1] != subjects[2], "two users' localhost are two serves"
    assert all(re.fullmatch(r"vllm-0\.32\.0/m#[0-9a-f]{4}", subject) for subject in subjects)
