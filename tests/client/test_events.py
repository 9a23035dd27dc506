"""Short cuts of the parsers against their plain forms, and event streams against an independent reading."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from k3repro.client import AnswerReader
from k3repro.client._sse import EventStream

LINE = st.sampled_from(
    [
        b"data: x",
        b"data:y",
        b"data",
        b"event: error",
        b": note",
        b"id: 1",
        b"other: z",
        b"",
        b"data: \xc3\xa9",
    ]
)
END = st.sampled_from([b"\n", b"\r\n", b"\r"])


def events_of(parts: list[bytes]) -> list[tuple[bytes, bytes]]:
    seen: list[tuple[bytes, bytes]] = []
    stream = EventStream(lambda data, name: seen.append((data, name)))
    for part in parts:
        stream.feed(part)
    return seen


def oracle(text: bytes) -> list[tuple[bytes, bytes]]:
    """The standard's algorithm, line by line over the whole text."""
    seen, data, name = [], [], b""
    lines = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")[:-1]
    for line in lines:
        if not line:
            if data:
                seen.append((b"\n".join(data), name))
            data, name = [], b""
        elif not line.startswith(b":"):
            field, _, value = line.partition(b":")
            value = value[1:] if value.startswith(b" ") else value
            if field == b"data":
                data.append(value)
            elif field == b"event":
                name = value
    return seen


@given(st.lists(st.tuples(LINE, END), max_size=30), st.lists(st.integers(0, 400), max_size=8))
def test_event_streams_follow_the_standard_however_cut(
    lines: list[tuple[bytes, bytes]], cuts: list[int]
) -> None:
    text = b"".join(line + end for line, end in lines)
    places = sorted({min(cut, len(text)) for cut in cuts})
    parts = [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]
    assert events_of(parts) == oracle(text)


TEXT = st.text(max_size=12) | st.sampled_from(
    ['"', "\\", "\\n", "\x7f", "\x1f", 'a"b', "\u2028", "é", " ok", ""]
)
SHAPE = st.sampled_from(["text", "chat", "nested", "escaped key", "two texts"])


def payload(shape: str, text: str, ascii_only: bool, number: int) -> bytes:
    choice: dict[str, object] = {"index": 0, "text": text, "finish_reason": None}
    extra: dict[str, object] = {}
    if shape == "chat":
        choice = {"index": 0, "delta": {"content": text}, "finish_reason": None}
    elif shape == "nested":
        extra = {"echo": {"text": f"x{number}"}}
    elif shape == "escaped key":
        extra = {'a"text': f'"text":"{number}'}
    elif shape == "two texts":
        choice["more"] = {"content": str(number)}
    document = {"id": "c", **extra, "choices": [choice], "system_fingerprint": "f"}
    return json.dumps(document, ensure_ascii=ascii_only, separators=(",", ":")).encode(
        "utf-8", "surrogatepass"
    )


def result(reader: AnswerReader) -> tuple[object, ...]:
    return (
        reader.text,
        reader.events,
        reader.first_token_ns,
        reader.last_token_ns,
        reader.error,
        reader.fingerprint,
    )


@given(st.lists(st.tuples(SHAPE, TEXT, st.booleans()), min_size=1, max_size=12))
def test_recognised_events_say_what_parsed_events_say(script: list[tuple[str, str, bool]]) -> None:
    quick, plain = AnswerReader(), AnswerReader()
    plain._lessons = 99  # never learns, so every event is parsed
    for number, (shape, text, ascii_only) in enumerate(script):
        quick.now_ns = plain.now_ns = number
        data = payload(shape, text, ascii_only, number)
        quick.event(data, b"")
        plain.event(data, b"")
    assert result(quick) == result(plain)


@given(st.lists(TEXT, min_size=2, max_size=8), st.data())
def test_damaged_events_are_judged_alike(texts: list[str], draw: st.DataObject) -> None:
    quick, plain = AnswerReader(), AnswerReader()
    plain._lessons = 99
    for number, text in enumerate(texts):
        data = bytearray(payload("text", text, False, number))
        if number and draw.draw(st.booleans()):
            data[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
        quick.now_ns = plain.now_ns = number
        quick.event(bytes(data), b"")
        plain.event(bytes(data), b"")
    assert result(quick) == result(plain)


def test_the_short_cut_is_taken() -> None:
    reader = AnswerReader()
    reader.event(payload("text", " one", False, 0), b"")
    assert reader._shortest < 1 << 62

    reader.event(payload("text", " two", False, 0), b"")
    assert reader.text == " one two"


def told(*documents: str) -> AnswerReader:
    reader = AnswerReader()
    for document in documents:
        reader.event(document.encode(), b"")
    return reader


def test_half_a_surrogate_pair_is_joined_or_replaced() -> None:
    halves = told('{"choices":[{"text":"\\ud83c"}]}', '{"choices":[{"text":"\\udf89"}]}')
    assert halves.text == "\N{PARTY POPPER}"
    alone = told('{"system_fingerprint":"\\ud800","choices":[{"text":"a\\ud800"}]}')
    assert (alone.text, alone.fingerprint) == ("a\ufffd", "\ufffd")


def test_a_count_beyond_any_counter_is_no_count() -> None:
    reader = told('{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":%s}}' % ("9" * 400))
    assert (reader.prompt_tokens, reader.completion_tokens) == (3, None)


def test_a_choice_of_another_shape_is_said_to_be_one() -> None:
    assert "not an object" in str(told('{"choices":[{"delta":5,"finish_reason":7}]}').error)
