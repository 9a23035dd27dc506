"""The golden outcome table: what a server may do to a streaming client, and the one outcome each thing has.

Each case is bytes; it is read whole, byte by byte, and cut at every place hypothesis likes, with the same
record.
"""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3repro.client import Exchange, Outcome, Request, RequestRecord

HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
)
REQUEST = Request("r", "hello", 3)
OK, CUT = Outcome.COMPLETED, Outcome.TRUNCATED
IN_STREAM, HTTP = Outcome.FAILED_IN_STREAM, Outcome.FAILED_HTTP


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def event(text: str | None, finish: str | None = None, **more: Any) -> bytes:
    choices = [] if text is None else [{"index": 0, "text": text, "finish_reason": finish}]
    return (
        b"data: " + json.dumps({"id": "c", "choices": choices, **more}, ensure_ascii=False).encode() + b"\n\n"
    )


def usage(count: int, **more: Any) -> bytes:
    return event(None, usage={"prompt_tokens": 1, "completion_tokens": count, **more})


DONE = b"data: [DONE]\n\n"
TOKENS = [event(" a"), event(" ü"), event(" c", "length")]
GOOD = [*TOKENS, usage(3), DONE]


def stream(events: list[bytes], end: bytes = b"0\r\n\r\n", head: bytes = HEAD) -> bytes:
    return head + b"".join(map(chunk, events)) + end


def plain(status: int, body: bytes, headers: bytes = b"") -> bytes:
    head = b"HTTP/1.1 %d X\r\nContent-Type: application/json\r\n%s" % (status, headers)
    return head + b"Content-Length: %d\r\n\r\n" % len(body) + body


GZIP = HEAD.replace(b"\r\n\r\n", b"\r\nContent-Encoding: gzip\r\n\r\n")
WHOLE = {
    "choices": [{"index": 0, "text": " a ü c", "finish_reason": "length"}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 3},
}
CHAT = [
    event(None, choices=[{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]),
    *[
        event(None, choices=[{"index": 0, "delta": {"content": t}, "finish_reason": None}])
        for t in (" a", " ü")
    ],
    event(None, choices=[{"index": 0, "delta": {"content": " c"}, "finish_reason": "length"}]),
]
INTERIM = b"HTTP/1.1 100 Continue\r\n\r\n"

# name -> bytes, whether the server closes afterwards, outcome, words of the error, completion tokens
CASES: dict[str, tuple[bytes, bool, Outcome, str, int | None]] = {
    "good": (stream(GOOD), False, OK, "", 3),
    "chat": (stream([*CHAT, usage(3), DONE]), False, OK, "", 3),
    "crlf": (stream([e.replace(b"\n", b"\r\n") for e in GOOD]), False, OK, "", 3),
    "bare carriage returns": (
        stream([e.replace(b"\n", b"\r") for e in GOOD]),
        False,
        OK,
        "",
        3,
    ),
    "comments and fields": (
        stream([b": ping\n\n", b"id: 7\nretry: 1\n", *GOOD]),
        False,
        OK,
        "",
        3,
    ),
    "byte order mark": (stream([b"\xef\xbb\xbf" + GOOD[0], *GOOD[1:]]), False, OK, "", 3),
    "no space after colon": (
        stream([e.replace(b"data: ", b"data:") for e in GOOD]),
        False,
        OK,
        "",
        3,
    ),
    "gzip": (stream([gzip.compress(b"".join(GOOD))], head=GZIP), False, OK, "", 3),
    "gzip cut": (
        stream([gzip.compress(b"".join(GOOD))[:-9]], head=GZIP),
        False,
        OK,
        "compressed",
        3,
    ),
    "content type in capitals": (
        stream(GOOD, head=HEAD.replace(b"text/event-stream", b"Text/Event-Stream")),
        False,
        OK,
        "",
        3,
    ),
    "another choice": (
        stream([TOKENS[0], event(None, choices=[{"index": 1, "text": " b"}]), *TOKENS[1:], usage(3), DONE]),
        False,
        IN_STREAM,
        "more than the one choice",
        3,
    ),
    "two choices in an event": (
        stream(
            [event(None, choices=[{"index": 0, "text": " a"}, {"index": 1, "text": " b"}]), usage(3), DONE]
        ),
        False,
        IN_STREAM,
        "more than the one choice",
        3,
    ),
    "interim response": (INTERIM + stream(GOOD), False, OK, "", 3),
    "coalesced": (stream([b"".join(GOOD)]), False, OK, "", 3),
    "duplicate done": (stream([*GOOD, DONE]), False, OK, "more than one [DONE]", 3),
    "no length, closed": (
        HEAD.replace(b"Transfer-Encoding: chunked", b"Connection: close") + b"".join(GOOD),
        True,
        OK,
        "",
        3,
    ),
    "no usage": (stream([*TOKENS, DONE]), False, OK, "usage missing", None),
    "not streamed": (plain(200, json.dumps(WHOLE).encode()), False, OK, "not streamed", 3),
    "closed after usage": (stream(GOOD[:-1], b""), True, OK, "ended after", 3),
    "error event": (
        stream([*TOKENS[:2], b'data: {"error": {"message": "engine died", "code": 500}}\n\n', DONE]),
        False,
        IN_STREAM,
        "engine died",
        None,
    ),
    "named error event": (
        stream([TOKENS[0], b'event: error\ndata: {"message": "boom"}\n\n', DONE]),
        False,
        IN_STREAM,
        "boom",
        None,
    ),
    "error after done": (
        stream([*GOOD, b'data: {"error": "late"}\n\n']),
        False,
        IN_STREAM,
        "late",
        3,
    ),
    "error in a 200 body": (
        plain(200, b'{"error": {"message": "no"}}'),
        False,
        IN_STREAM,
        "no",
        None,
    ),
    "html in a 200 body": (plain(200, b"<html>"), False, IN_STREAM, "neither", None),
    "broken json": (
        stream([TOKENS[0], b"data: {oops\n\n", DONE]),
        False,
        IN_STREAM,
        "JSON",
        None,
    ),
    "broken utf-8": (
        stream([TOKENS[0], b'data: {"a": "\xff"}\n\n']),
        False,
        IN_STREAM,
        "JSON",
        None,
    ),
    "broken chunk": (HEAD + chunk(TOKENS[0]) + b"zz\r\n", False, IN_STREAM, "", None),
    "aborted": (
        stream([TOKENS[0], event("", "abort"), usage(1), DONE]),
        False,
        IN_STREAM,
        "abort",
        1,
    ),
    "too many tokens": (stream([*TOKENS, usage(4), DONE]), False, IN_STREAM, "counted 4", 4),
    "too few tokens": (stream([*TOKENS, usage(2), DONE]), False, CUT, "2 of 3", 2),
    "no finish_reason": (stream([*TOKENS[:2], usage(2), DONE]), False, CUT, "finish_reason", 2),
    "closed in the stream": (stream(TOKENS[:2], b""), True, CUT, "closed", None),
    "closed in an event": (HEAD + chunk(TOKENS[0] + b'data: {"cho'), True, CUT, "closed", None),
    "empty stream": (stream([]), False, CUT, "finish_reason", None),
    "429": (
        plain(429, b'{"error":{"message":"slow down"}}', b"Retry-After: 7\r\n"),
        False,
        HTTP,
        "HTTP 429 (Retry-After 7): slow down",
        None,
    ),
    "503 text": (plain(503, b"no workers"), False, HTTP, "HTTP 503", None),
    "redirect": (plain(307, b"", b"Location: http://x/\r\n"), False, HTTP, "redirect", None),
    "204": (b"HTTP/1.1 204 No Content\r\n\r\n", False, HTTP, "HTTP 204", None),
    "not http": (b"SSH-2.0-OpenSSH\r\n", True, HTTP, "", None),
    "closed at once": (b"", True, HTTP, "closed", None),
    "closed in the head": (HEAD[:30], True, HTTP, "closed", None),
    "unknown encoding": (
        stream(GOOD, head=HEAD.replace(b"\r\n\r\n", b"\r\nContent-Encoding: br\r\n\r\n")),
        False,
        IN_STREAM,
        "content-encoding",
        None,
    ),
}


def read(parts: list[bytes], closes: bool, request: Request = REQUEST) -> RequestRecord | None:
    records: list[RequestRecord] = []
    exchange = Exchange(request, "w", 0, 0, records.append)
    for part in parts:
        exchange.feed([(10, part)])
    if closes:
        exchange.lost(10, "the connection closed")
    assert len(records) <= 1
    return records[0] if records else None


@pytest.mark.parametrize("name", CASES)
def test_outcome(name: str) -> None:
    data, closes, outcome, words, tokens = CASES[name]
    record = read([data], closes)
    assert record is not None
    assert record.outcome is outcome, record.error
    assert words in (record.error or "")
    assert record.completion_tokens == tokens
    if outcome is OK:
        assert record.text == " a ü c"
        assert (record.error is None) == (words == "")
        assert (record.ttft_s is None) == (name == "not streamed")


@pytest.mark.parametrize("name", CASES)
def test_byte_by_byte_gives_the_same_record(name: str) -> None:
    data, closes, *_ = CASES[name]
    assert read([data[i : i + 1] for i in range(len(data))], closes) == read([data], closes)


@given(st.sampled_from(sorted(CASES)), st.data())
def test_any_cut_gives_the_same_record(name: str, draw: st.DataObject) -> None:
    data, closes, *_ = CASES[name]
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(data)), max_size=6)))
    parts = [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    assert read(parts, closes) == read([data], closes)


@given(st.binary(max_size=300), st.booleans())
def test_noise_ends_in_one_outcome_and_no_exception(noise: bytes, inside: bool) -> None:
    record = read([HEAD + noise if inside else noise], True)
    assert record is not None and record.outcome is not OK


def test_a_stop_string_may_end_early_and_without_ignore_eos_so_may_the_model() -> None:
    data = stream([event(" a", "stop"), usage(1), DONE])
    for request, outcome in (
        (REQUEST, CUT),
        (Request("r", "x", 3, stop=["b"]), OK),
        (Request("r", "x", 3, ignore_eos=False), OK),
    ):
        record = read([data], False, request)
        assert record is not None and record.outcome is outcome


def test_ignored_eos_without_usage_and_without_length_is_not_completed() -> None:
    record = read([stream([event(" a", "stop"), DONE])], False)
    assert record is not None and record.outcome is CUT


def test_usage_details() -> None:
    cached = usage(3, prompt_tokens_details={"cached_tokens": 5})
    record = read([stream([*TOKENS, cached, DONE])], False)
    assert record is not None and (record.prompt_tokens, record.cached_tokens, record.events) == (1, 5, 3)


def test_memory_is_bounded_whatever_is_sent() -> None:
    big = b"x" * (17 * 1024 * 1024)
    for data, words in (
        (stream([b"data: " + big]), "event of more than"),
        (plain(200, big), "body of more than"),
        (stream([gzip.compress(big)], head=GZIP), "compressed chunk"),
    ):
        record = read([data], False)
        assert record is not None and record.outcome is IN_STREAM
        assert words in (record.error or "")
    many = HEAD[:-2] + b"A: b\r\n" * 20_000 + b"\r\n"
    record = read([many], True)
    assert record is not None and record.outcome is HTTP
    assert record.error == "more than 64 KiB of headers"


def test_what_follows_a_whole_answer_changes_nothing_but_the_trust_in_the_connection() -> None:
    kept: list[bool] = []

    class Link:
        def flush(self) -> None: ...
        def abort(self) -> None: ...
        def release(self, keep_alive: bool) -> None:
            kept.append(keep_alive)

    alone = read([stream(GOOD)], False)
    for surplus in (b"", stream(TOKENS), b"garbage", plain(500, b"{}")):
        records: list[RequestRecord] = []
        exchange = Exchange(REQUEST, "w", 0, 0, records.append)
        exchange.handle = Link()
        exchange.feed([(10, stream(GOOD) + surplus)])
        assert records == [alone]
    assert kept == [True, False, False, False]
