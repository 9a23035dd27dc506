"""Streams of today's servers, each with the one right record.

A script is what a server sends and when: `at` milliseconds after the request, an event. `right` holds what
the record has to say; what it does not name has its usual value (16 tokens, 10 ms apart, the first after
50 ms).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from client_scripts import HEAD, MS, ScriptedTarget, chunk

from k3repro.client import Outcome, Request, RequestRecord

N, FIRST, GAP = 16, 50, 10
TEXT = "".join(f" t{index}" for index in range(N))
Script = Sequence[tuple[int, Any]]
EARLY = Outcome.TRUNCATED, Outcome.FAILED_IN_STREAM


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": fields, "finish_reason": finish}],
    }


def completion(text: str, finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "text": text, "finish_reason": finish}], **more}


def usage(count: int = N, **more: Any) -> dict[str, Any]:
    return {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": count, **more}}


def paced(say: Any, count: int = N, step: int = 1) -> list[tuple[int, Any]]:
    """`count` tokens, `step` a chunk, one gap a token; `say(text, first token's number)` makes the event."""
    return [
        (
            FIRST + GAP * (start + step - 1 if step > 1 else start),
            say("".join(f" t{i}" for i in range(start, start + step)), start),
        )
        for start in range(0, count, step)
    ]


def ended(script: list[tuple[int, Any]], finish: Any, count: int = N, **more: Any) -> list[tuple[int, Any]]:
    last = script[-1][0]
    tail = [(last, finish)] if finish is not None else []
    return [*script, *tail, (last, usage(count, **more)), (last, "[DONE]")]


def chat(key: str = "content", **more: Any) -> list[tuple[int, Any]]:
    return paced(lambda text, _: delta(**{key: text}, **more))


def reasoned(key: str, extra: str = "") -> list[tuple[int, Any]]:
    """Half reasoning, half answer."""

    def say(text: str, number: int) -> dict[str, Any]:
        if number >= N // 2:
            return delta(content=text)
        return delta(**{key: text}, **({extra: text} if extra else {}), content=None)

    return paced(say)


THOUGHT = "".join(f" t{index}" for index in range(N // 2))
ANSWER = "".join(f" t{index}" for index in range(N // 2, N))
HALF = {"text": ANSWER, "reasoning": THOUGHT, "first_answer_s": (FIRST + GAP * N // 2) / 1000}
NONE = {"tpot_s": None, "itl_s": None}
FEW = {"tpot_s": 0.01, "itl_s": None}  # several tokens an event, and no word of how many came first
STOP, LENGTH = delta("stop"), delta("length")
TOOL = {"index": 0, "id": "c", "type": "function", "function": {"name": "look", "arguments": '{"x":1}'}}


def responses(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", **more}


RESPONSE_END = {
    "usage": {"input_tokens": 7, "output_tokens": N, "input_tokens_details": {"cached_tokens": 3}}
}

# name -> what is sent, what the record says besides the usual
STREAMS: dict[str, tuple[Script, dict[str, Any]]] = {
    "completions": (ended(paced(lambda t, _: completion(t)), completion("", "length")), {}),
    "finish with the last token": (
        ended(paced(lambda t, n: completion(t, "length" if n == N - 1 else None)), None),
        {},
    ),
    "chat": (ended(chat(), LENGTH), {}),
    "role-only first chunk": ([(5, delta(role="assistant", content="")), *ended(chat(), LENGTH)], {}),
    "role and null content first": ([(5, delta(role="assistant", content=None)), *ended(chat(), LENGTH)], {}),
    "role in every chunk": (ended(chat(role="assistant"), LENGTH), {}),
    "finish chunk without a delta": (
        ended(chat(), {"choices": [{"index": 0, "finish_reason": "length"}]}),
        {},
    ),
    "finish chunk with a null delta": (
        ended(chat(), {"choices": [{"index": 0, "delta": None, "finish_reason": "length"}]}),
        {},
    ),
    "all tokens in one event": (
        ended([(FIRST, delta(content=TEXT))], LENGTH),
        NONE | {"events": 1, "e2e_s": FIRST / 1000},
    ),
    "all tokens in one event with finish": (
        ended([(FIRST, completion(TEXT, "length"))], None),
        NONE | {"events": 1, "e2e_s": FIRST / 1000},
    ),
    "one tool call at the end": (
        ended([(200, delta(tool_calls=[TOOL]))], delta("tool_calls")),
        NONE
        | {
            "events": 1,
            "text": "",
            "tool_calls": 'look{"x":1}',
            "ttft_s": 0.2,
            "e2e_s": 0.2,
            "first_answer_s": None,
        },
    ),
    "tool call streamed": (
        ended(paced(lambda t, _: delta(tool_calls=[{"index": 0, "function": {"arguments": t}}])), LENGTH),
        {"text": "", "tool_calls": TEXT, "first_answer_s": None},
    ),
    "two tool calls in one chunk": (
        ended([(FIRST, delta(tool_calls=[TOOL, TOOL])), (200, delta(content="x"))], LENGTH),
        {"text": "x", "tool_calls": 'look{"x":1}' * 2, "events": 2, "first_answer_s": 0.2} | FEW,
    ),
    "function_call of old": (
        ended(paced(lambda t, _: delta(function_call={"arguments": t})), LENGTH),
        {"text": "", "tool_calls": TEXT, "first_answer_s": None},
    ),
    "reasoning_content, then content": (ended(reasoned("reasoning_content"), LENGTH), HALF),
    "reasoning, then content": (ended(reasoned("reasoning"), LENGTH), HALF),
    "thinking, then content": (ended(reasoned("thinking"), LENGTH), HALF),
    "one reasoning under two names": (ended(reasoned("reasoning_content", "reasoning"), LENGTH), HALF),
    "reasoning_details": (
        ended(
            paced(
                lambda t, n: (
                    delta(reasoning_details=[{"type": "reasoning.text", "text": t}])
                    if n < N // 2
                    else delta(content=t)
                )
            ),
            LENGTH,
        ),
        HALF,
    ),
    "content parts with thinking": (
        ended(
            paced(
                lambda t, n: delta(
                    content=[{"type": "thinking", "thinking": [{"type": "text", "text": t}]}]
                    if n < N // 2
                    else [{"type": "text", "text": t}]
                )
            ),
            LENGTH,
        ),
        HALF,
    ),
    "reasoning only, cut by the limit": (
        ended(chat("reasoning"), LENGTH),
        {"text": "", "reasoning": TEXT, "first_answer_s": None},
    ),
    "reasoning and content in one chunk": (
        ended(paced(lambda t, n: delta(reasoning=t) if n < 8 else delta(content=t, reasoning="")), LENGTH),
        HALF,
    ),
    "refusal": (ended(chat("refusal"), LENGTH), {}),
    "audio transcript": (
        ended(paced(lambda t, _: delta(audio={"transcript": t, "data": "AAAA"})), LENGTH),
        {},
    ),
    "audio without a transcript": (
        ended(paced(lambda t, _: delta(audio={"data": "AAAA"})), LENGTH),
        {"text": "", "first_answer_s": None},
    ),
    "four tokens a chunk": (
        ended(paced(lambda t, _: completion(t), step=4), completion("", "length")),
        {"events": 4, "ttft_s": 0.08, "e2e_s": 0.2, "first_answer_s": 0.08} | FEW | {"tpot_s": 0.12 / 15},
    ),
    "four tokens a chunk, usage in each": (
        ended(
            paced(lambda t, n: completion(t, usage={"prompt_tokens": 7, "completion_tokens": n + 4}), step=4),
            completion("", "length"),
        ),
        {
            "events": 4,
            "ttft_s": 0.08,
            "e2e_s": 0.2,
            "first_answer_s": 0.08,
            "tpot_s": 0.12 / 15,
            "itl_s": 0.01,
            "first_event_tokens": 4,
        },
    ),
    "usage in every chunk": (
        ended(
            paced(lambda t, n: completion(t, usage={"prompt_tokens": 7, "completion_tokens": n + 1})),
            completion("", "length"),
        ),
        {"first_event_tokens": 1, "itl_s": 0.01},
    ),
    "usage null until the end": (
        ended(paced(lambda t, _: completion(t, usage=None)), completion("", "length", usage=None)),
        {},
    ),
    "usage with the finish chunk": (
        [
            *paced(lambda t, _: completion(t)),
            (200, completion("", "length", usage={"prompt_tokens": 7, "completion_tokens": N})),
            (200, "[DONE]"),
        ],
        {},
    ),
    "usage inside the choice": (
        [
            *chat(),
            (
                200,
                {
                    "choices": [
                        {
                            "index": 0,
                            "delta": {},
                            "finish_reason": "length",
                            "usage": {"prompt_tokens": 7, "completion_tokens": N},
                        }
                    ]
                },
            ),
            (200, "[DONE]"),
        ],
        {},
    ),
    "usage missing": (
        [*paced(lambda t, _: completion(t)), (200, completion("", "length")), (200, "[DONE]")],
        NONE | {"completion_tokens": None, "prompt_tokens": None},
    ),
    "cached tokens": (
        ended(chat(), LENGTH, prompt_tokens_details={"cached_tokens": 4}),
        {"cached_tokens": 4},
    ),
    "an early end": (
        ended(paced(lambda t, _: completion(t), 8), completion("", "stop"), 8),
        {
            "outcome": Outcome.TRUNCATED,
            "completion_tokens": 8,
            "e2e_s": None,
            "tpot_s": None,
            "events": 8,
            "text": THOUGHT,
        },
    ),
    "an empty token first": (
        ended([(20, completion("")), *paced(lambda t, _: completion(t))], completion("", "length"), N),
        {"ttft_s": 0.02, "first_answer_s": 0.05, "events": N + 1, "tpot_s": 0.012},
    ),
    "no [DONE]": (ended(chat(), LENGTH)[:-1], {"e2e_s": 0.2}),
    "one token": (
        ended([(FIRST, delta(content=" t0"))], LENGTH, 1),
        NONE | {"completion_tokens": 1, "events": 1, "text": " t0", "e2e_s": 0.05, "max_tokens": 1},
    ),
    "several choices": (
        [
            (FIRST, {"choices": [{"index": 0, "text": "a"}, {"index": 1, "text": "b"}]}),
            (60, usage()),
            (60, "[DONE]"),
        ],
        {
            "outcome": Outcome.FAILED_IN_STREAM,
            "e2e_s": None,
            "ttft_s": None,
            "tpot_s": None,
            "events": 0,
            "text": "",
            "first_answer_s": None,
        },
    ),
    "error after half": (
        [
            *paced(lambda t, _: completion(t), 8),
            (140, {"error": {"message": "engine died"}}),
            (140, "[DONE]"),
        ],
        {
            "outcome": Outcome.FAILED_IN_STREAM,
            "e2e_s": None,
            "tpot_s": None,
            "events": 8,
            "text": THOUGHT,
            "completion_tokens": None,
            "prompt_tokens": None,
        },
    ),
    "typed error event": (
        [
            *paced(lambda t, _: completion(t), 8),
            (140, {"type": "error", "message": "overloaded"}),
            (140, "[DONE]"),
        ],
        {
            "outcome": Outcome.FAILED_IN_STREAM,
            "e2e_s": None,
            "tpot_s": None,
            "events": 8,
            "text": THOUGHT,
            "completion_tokens": None,
            "prompt_tokens": None,
        },
    ),
    "responses": (
        [
            (1, responses("created", response={})),
            (2, responses("in_progress", response={})),
            (3, responses("output_item.added", item={})),
            *paced(lambda t, _: responses("output_text.delta", delta=t)),
            (200, responses("output_text.done", text=TEXT)),
            (
                200,
                responses(
                    "incomplete",
                    response={"incomplete_details": {"reason": "max_output_tokens"}, **RESPONSE_END},
                ),
            ),
        ],
        {"cached_tokens": 3},
    ),
    "responses with reasoning": (
        [
            *paced(
                lambda t, n: responses("reasoning_text.delta" if n < N // 2 else "output_text.delta", delta=t)
            ),
            (200, responses("completed", response=RESPONSE_END)),
        ],
        HALF | {"cached_tokens": 3},
    ),
    "responses with a tool": (
        [
            *paced(lambda t, _: responses("function_call_arguments.delta", delta=t)),
            (200, responses("completed", response=RESPONSE_END)),
        ],
        {"text": "", "tool_calls": TEXT, "cached_tokens": 3, "first_answer_s": None},
    ),
    "responses that fail": (
        [
            (FIRST, responses("output_text.delta", delta=" t0")),
            (60, responses("failed", response={"error": {"message": "no memory"}})),
        ],
        {
            "outcome": Outcome.FAILED_IN_STREAM,
            "e2e_s": None,
            "tpot_s": None,
            "events": 1,
            "text": " t0",
            "completion_tokens": None,
            "prompt_tokens": None,
        },
    ),
}


def record_of(script: Script, max_tokens: int = N, tail: bytes = b"0\r\n\r\n") -> RequestRecord:
    packets: dict[int, bytes] = {0: HEAD}
    for at, event in script:
        packets[at] = packets.get(at, b"") + chunk(event)
    packets[script[-1][0]] += tail
    wire = [(at * MS, data) for at, data in packets.items()]
    with ScriptedTarget(lambda _: wire) as target:
        (found,) = target.wave([Request("r", "x", max_tokens)], concurrency=1, wave="w")
    return found


USUAL = {
    "outcome": Outcome.COMPLETED,
    "text": TEXT,
    "reasoning": "",
    "tool_calls": "",
    "events": N,
    "ttft_s": 0.05,
    "e2e_s": 0.2,
    "tpot_s": 0.01,
    "prompt_tokens": 7,
    "completion_tokens": N,
    "cached_tokens": None,
    "first_event_tokens": None,
}


def test_there_are_at_least_forty() -> None:
    assert len(STREAMS) >= 40


@pytest.mark.parametrize("name", STREAMS)
def test_stream(name: str) -> None:
    script, right = STREAMS[name]
    right = dict(right)
    record = record_of(script, right.pop("max_tokens", N))
    usual = {"first_answer_s": right.get("ttft_s", 0.05)} if right.get("text", TEXT) else {}
    usual["itl_s"] = right.get("tpot_s", USUAL["tpot_s"])  # an event a token, unless the table says else
    for field, value in (USUAL | usual | right).items():
        found = getattr(record, field)
        assert found == (pytest.approx(value) if isinstance(value, float) else value), (field, record.error)


@pytest.mark.parametrize("name", STREAMS)
def test_all_in_one_packet_has_the_same_words(name: str) -> None:
    """However events are packed, what was said and counted is the same; only times differ."""
    script, right = STREAMS[name]
    whole = [(script[-1][0], event) for _, event in script]
    one, spread = (record_of(s, dict(right).get("max_tokens", N)) for s in (whole, script))
    for field in (
        "outcome",
        "text",
        "reasoning",
        "tool_calls",
        "events",
        "completion_tokens",
        "finish_reason",
    ):
        assert getattr(one, field) == getattr(spread, field)


def test_spaced_json_is_read_as_well() -> None:
    script = [
        (at, json.dumps(event, indent=None, separators=(", ", " : ")) if isinstance(event, dict) else event)
        for at, event in ended(reasoned("reasoning"), LENGTH)
    ]
    record = record_of(script)
    assert (record.reasoning, record.text, record.events) == (THOUGHT, ANSWER, N)
