"""Endpoints of the twin: what they answer, what they refuse and how, needles, tokens, stop strings."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3repro.client import Outcome, Request, open_target, run_wave
from k3repro.errors import InputError
from k3repro.serve import parse_metrics
from k3repro.twin import UNKNOWN_ANSWER, Cluster, needle_question, needle_sentence, platform
from k3repro.twin._answers import WORDS, answer
from k3repro.twin._needle import answer_question
from k3repro.twin._tokenizer import count_tokens, decode, encode, pieces


def cluster(**settings: str) -> Cluster:
    return Cluster(platform("mi325x").with_overrides(settings), 1)


JSON = "application/json"


def post(path: str, body: Any, server: Cluster | None = None, kind: str = JSON) -> tuple[int, Any]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    out = (server or cluster()).handle("POST", path, data, kind)
    assert isinstance(out, bytes), "it was accepted"
    head, _, text = out.partition(b"\r\n\r\n")
    return int(head.split(b" ")[1]), json.loads(text)


GOOD = {"model": "kimi-k3", "prompt": "hello", "max_tokens": 4}
REFUSED: list[tuple[str, Any, int, str, str]] = [
    ("empty body", b"", 400, "Bad Request", "missing"),
    ("malformed", b'{"prompt": ', 400, "Bad Request", "json_invalid"),
    ("not utf-8", b'{"prompt": "\xff"}', 400, "Bad Request", "json_invalid"),
    ("too deep", b"[" * 100_000, 400, "Bad Request", "json_invalid"),
    ("a list", b"[1]", 400, "Bad Request", "dict"),
    ("unknown model", {**GOOD, "model": "gpt"}, 404, "NotFoundError", "`gpt` does not exist"),
    ("negative tokens", {**GOOD, "max_tokens": -5}, 400, "BadRequestError", "at least 1, got -5"),
    ("no tokens", {**GOOD, "max_tokens": 0}, 400, "BadRequestError", "at least 1, got 0"),
    ("tokens as text", {**GOOD, "max_tokens": "four"}, 400, "Bad Request", "int_parsing"),
    ("half a token", {**GOOD, "max_tokens": 1.5}, 400, "Bad Request", "int_from_float"),
    ("a list of tokens", {**GOOD, "max_tokens": []}, 400, "Bad Request", "int_type"),
    ("model as number", {**GOOD, "model": 5}, 400, "Bad Request", "string_type"),
    ("cold", {**GOOD, "temperature": -1}, 400, "BadRequestError", "non-negative, got -1.0"),
    ("hot", {**GOOD, "temperature": "hot"}, 400, "Bad Request", "float_parsing"),
    ("hottest", b'{"prompt": "x", "temperature": Infinity}', 400, "BadRequestError", "finite number"),
    ("all and more", {**GOOD, "top_p": 2}, 400, "BadRequestError", "top_p must be in (0, 1], got 2.0"),
    ("options as text", {**GOOD, "stream": True, "stream_options": "x"}, 400, "Bad Request", "model_type"),
    ("stream as number", {**GOOD, "stream": 7}, 400, "Bad Request", "bool_parsing"),
    ("stream as list", {**GOOD, "stream": []}, 400, "Bad Request", "bool_type"),
    ("no prompt", {"model": "kimi-k3"}, 400, "BadRequestError", "prompt"),
    ("empty prompt", {**GOOD, "prompt": ""}, 400, "BadRequestError", "prompt"),
    ("number prompt", {**GOOD, "prompt": 7}, 400, "BadRequestError", "prompt"),
    ("bad token id", {**GOOD, "prompt": [-1]}, 400, "BadRequestError", "vocabulary"),
    ("huge token id", {**GOOD, "prompt": [10**30]}, 400, "BadRequestError", "vocabulary"),
    ("two prompts", {**GOOD, "prompt": ["a", "b"]}, 400, "BadRequestError", "one prompt"),
    (
        "options without a stream",
        {**GOOD, "stream_options": {"include_usage": True}},
        400,
        "BadRequestError",
        "stream",
    ),
    ("two choices", {**GOOD, "n": 2}, 400, "BadRequestError", "n must be 1"),
    ("stream as text", {**GOOD, "stream": "perhaps"}, 400, "Bad Request", "bool_parsing"),
    ("stop as number", {**GOOD, "stop": 3}, 400, "Bad Request", "stop"),
    ("too long", {**GOOD, "prompt": "x " * 60}, 400, "BadRequestError", "length is 50 tokens"),
    ("too long together", {**GOOD, "max_tokens": 49}, 400, "BadRequestError", "49 output tokens"),
]


NAMES = [row[0] for row in REFUSED]


@pytest.mark.parametrize(("name", "body", "status", "kind", "words"), REFUSED, ids=NAMES)
def test_bad_requests_get_the_engines_answer(
    name: str, body: Any, status: int, kind: str, words: str
) -> None:
    got, document = post("/v1/completions", body, cluster(max_model_len="50"))
    error = document["error"]
    assert (got, error["type"], error["code"]) == (status, kind, status)
    assert words in error["message"]
    assert set(error) == {"message", "type", "param", "code"}


@pytest.mark.parametrize(
    ("field", "value", "read"),
    [
        ("max_tokens", "3", 3),
        ("max_tokens", 2.0, 2),
        ("max_tokens", True, 1),
        ("n", "1", 4),
        ("stream", 0, 4),
        ("temperature", "0.5", 4),
        ("top_p", 1, 4),
        ("ignore_eos", "yes", 4),
    ],
)
def test_what_the_engine_converts_is_converted(field: str, value: Any, read: int) -> None:
    out = cluster().handle("POST", "/v1/completions", json.dumps({**GOOD, field: value}).encode())
    assert not isinstance(out, bytes) and len(out[0].answer.tokens) == read


MESSAGES = [None, [], "hi", [{"content": "x"}], ["hi"], [{"role": "user", "content": 7}]]


@pytest.mark.parametrize("messages", MESSAGES)
def test_bad_messages_are_refused(messages: Any) -> None:
    status, document = post("/v1/chat/completions", {"model": "kimi-k3", "messages": messages})
    assert status == 400 and "messages" in document["error"]["message"]


FIELDS = ["prompt", "max_tokens", "stop", "stream", "stream_options", "messages", "ignore_eos", "model", "n"]
FIELDS += ["temperature", "top_p"]
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
VALUE = st.recursive(LEAVES, lambda x: st.lists(x) | st.dictionaries(st.text(max_size=5), x), max_leaves=8)


@given(VALUE, st.sampled_from(FIELDS), st.booleans())
def test_no_document_breaks_the_server(value: Any, field: str, chat: bool) -> None:
    server = cluster(max_model_len="1000")
    body = json.dumps({**GOOD, "messages": [{"role": "user", "content": "x"}], field: value}).encode()
    out = server.handle("POST", "/v1/chat/completions" if chat else "/v1/completions", body)
    assert not isinstance(out, bytes) or out.startswith(b"HTTP/1.1 4")


def test_other_methods_and_paths() -> None:
    server = cluster()

    def status(method: str, path: str) -> int:
        out = server.handle(method, path, b"")
        assert isinstance(out, bytes)
        return int(out.split(b" ")[1])

    assert [status("GET", path) for path in ("/health", "/version", "/v1/models", "/metrics", "/ping")] == [
        200
    ] * 5
    assert [status(method, "/v1/completions") for method in ("GET", "PUT", "DELETE", "OPTIONS", "")] == [
        405
    ] * 5
    assert status("POST", "/health") == 405
    assert [status("GET", path) for path in ("/", "/v1", "", "/v1/completions/render", "/%00")] == [404] * 5
    assert post("/v1/completions", GOOD, kind="text/plain")[0] == 415


def test_every_face_of_the_twin_is_marked() -> None:
    server = cluster()
    for path in ("/version", "/v1/models", "/metrics"):
        out = server.handle("GET", path, b"")
        assert isinstance(out, bytes) and b"k3repro-twin" in out.partition(b"\r\n\r\n")[2]
    for stream in (False, True):
        for path in ("/v1/completions", "/v1/chat/completions"):
            body = {**GOOD, "messages": [{"role": "user", "content": "x"}], "stream": stream}
            got = server.handle("POST", path, json.dumps(body).encode())
            assert not isinstance(got, bytes)
            generation, _ = got
            text = b"".join(data for _, data in generation.batch([1, 2, 3, 4]))
            chunks = text.split(b"data: {")[1:] if stream else [text]
            assert len(chunks) >= (4 if stream else 1)
            assert all(b'"system_fingerprint":"k3repro-twin' in piece for piece in chunks)


@given(st.text(max_size=200))
def test_tokens_are_lossless(text: str) -> None:
    ids = encode(text)
    assert "".join(pieces(text)) == text
    assert len(ids) == count_tokens(text)
    assert decode(ids) == text
    assert all(0 <= token < 2**32 for token in ids)


def test_a_token_id_prompt_is_the_text_it_stands_for() -> None:
    text = f"Some text. {needle_sentence('a-1', 'ONYX-11')} {needle_question('a-1')}"
    ids = post("/tokenize", {"model": "kimi-k3", "prompt": text})[1]["tokens"]
    assert post("/detokenize", {"tokens": ids})[1]["prompt"] == text
    with open_target("twin:mi325x") as target:
        requests = [Request("t", text, 9, ignore_eos=False), Request("i", ids, 9, ignore_eos=False)]
        by_text, by_ids = target.run(run_wave, requests, concurrency=1)
    assert by_text.text == by_ids.text == " ONYX-11"
    assert by_text.prompt_tokens == by_ids.prompt_tokens == len(ids)


KEYS = st.from_regex(r"[A-Za-z0-9_-]{1,8}", fullmatch=True)
VALUES = st.from_regex(r"[A-Z][A-Z0-9]{0,8}-[0-9]{1,5}", fullmatch=True)


@given(st.dictionaries(KEYS, VALUES, min_size=1, max_size=6), st.data(), st.text(max_size=40))
def test_each_question_gets_its_own_needle(planted: dict[str, str], draw: st.DataObject, filler: str) -> None:
    asked = draw.draw(st.sampled_from(sorted(planted)))
    text = filler.join(needle_sentence(key, value) + " " for key, value in planted.items())
    assert answer_question(text + needle_question(asked)) == planted[asked]
    assert answer_question(text + needle_question("other--key")) == UNKNOWN_ANSWER
    assert answer_question(text) is None


def test_needles_outside_the_grammar_are_refused() -> None:
    for key, value in (("two words", "A-1"), ("k", "lower-1"), ("k", "NOVALUE"), ("", "A-1")):
        with pytest.raises(InputError):
            needle_sentence(key, value)


def test_text_is_a_function_of_prompt_and_seed_alone() -> None:
    first = answer("hello", 1, 20, ignore_eos=True)
    assert first == answer("hello", 1, 20, ignore_eos=True)
    assert first.tokens != answer("hello", 2, 20, ignore_eos=True).tokens
    assert first.tokens != answer("hallo", 1, 20, ignore_eos=True).tokens
    assert list(answer("hello", 1, 300, ignore_eos=True).tokens)[:20] == list(first.tokens)
    assert all(len(pieces(word)) == 1 for word in WORDS) and len(set(WORDS)) == 256


@given(st.text(alphabet="ab 1", min_size=1, max_size=9), st.integers(1, 60), st.booleans())
def test_stop_strings_end_the_text_before_them(prompt: str, most: int, ignore: bool) -> None:
    whole = answer(prompt, 3, most, ignore_eos=ignore)
    for stop in {whole.text[i : i + 3] for i in range(0, len(whole.text) - 3, 5)} or {"zzz"}:
        cut = answer(prompt, 3, most, ignore_eos=ignore, stop=[stop])
        assert stop not in cut.text and whole.text.startswith(cut.text)
        assert (cut.finish_reason, cut.stop_reason) == ("stop", stop) or stop == "zzz"
        assert 1 <= len(cut.tokens) <= len(whole.tokens)


def test_lengths_and_finish_reasons() -> None:
    free = answer("hello", 1, 1000, ignore_eos=False)
    assert free.finish_reason == "stop" and free.tokens[-1] == ""
    forced = answer("hello", 1, 1000, ignore_eos=True)
    assert (forced.finish_reason, len(forced.tokens)) == ("length", 1000)
    short = answer("hello", 1, 3, ignore_eos=False)
    assert (short.finish_reason, len(short.tokens)) == ("length", 3)


def test_metrics_agree_with_the_core() -> None:
    with open_target("twin:mi300x?lanes=2") as target:
        requests = [Request(f"r{index}", "word " * index + "x", 5) for index in range(9)]

        async def ask(target: Any) -> tuple[list[Any], Any]:
            records = await run_wave(target, requests, concurrency=4)
            return records, parse_metrics((await target.fetch("/metrics")).text)

        records, metrics = target.run(ask)

    def total(name: str) -> float:
        return sum(sample.value for sample in metrics.named(name))

    assert total("vllm:generation_tokens_total") == 45 == sum(record.completion_tokens for record in records)
    assert total("vllm:prompt_tokens_total") == sum(record.prompt_tokens for record in records)
    assert total("vllm:request_success_total") == total("vllm:e2e_request_latency_seconds_count") == 9
    assert total("vllm:inter_token_latency_seconds_count") == 36
    assert total("vllm:num_requests_running") == total("vllm:num_requests_waiting") == 0
    ttft = sum(record.ttft_s for record in records)
    assert total("vllm:time_to_first_token_seconds_sum") == pytest.approx(ttft)


def test_metrics_count_what_is_under_way_and_what_was_cancelled() -> None:
    async def ask(target: Any) -> list[Any]:
        import asyncio

        seen = []
        wave = asyncio.ensure_future(run_wave(target, [Request("r", "x", 1000)], concurrency=1))
        await asyncio.sleep(3)
        seen.append(parse_metrics((await target.fetch("/metrics")).text))
        wave.cancel()
        await asyncio.sleep(1)
        seen.append(parse_metrics((await target.fetch("/metrics")).text))
        return seen

    with open_target("twin:mi325x?jitter_ppm=0") as target:
        during, after = target.run(ask)

    def total(metrics: Any, name: str) -> float:
        return sum(sample.value for sample in metrics.named(name))

    emitted = total(during, "vllm:generation_tokens_total")
    assert 20 < emitted < 35
    assert total(during, "vllm:num_requests_running") == 1
    assert total(after, "vllm:num_requests_running") == 0
    assert total(after, "vllm:generation_tokens_total") == emitted
    aborted = [
        s.value for s in after.named("vllm:request_success_total") if s.labels["finished_reason"] == "abort"
    ]
    assert sum(aborted) == 1


SCRIPT = """
import hashlib, json
from k3repro.client import Request, open_target, run_wave
requests = [Request(f"r{i}", f"prompt {i}", 1 + i % 9, chat=False) for i in range(40)]
requests.append(Request("c", [{"role": "user", "content": "é"}], 30, chat=True, ignore_eos=False))
with open_target("twin:mi300x", seed=11) as target:
    seen = hashlib.sha256()
    opened = target.transport.open
    def recording(request, receiver):
        feed = receiver.feed
        class Tap:
            def __getattr__(self, name): return getattr(receiver, name)
            def feed(self, batch):
                seen.update(repr(list(batch)).encode()); feed(batch)
        return opened(request, Tap())
    target.transport.open = recording
    records = target.run(run_wave, requests, concurrency=5)
print(seen.hexdigest(), hashlib.sha256(json.dumps([r.as_row() for r in records]).encode()).hexdigest())
"""


def test_the_same_seed_gives_the_same_bytes_in_another_process() -> None:
    digests = set()
    for hash_seed, zone in (("0", "UTC"), ("1", "Asia/Tokyo"), ("777", "UTC")):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "TZ": zone}
        command = [sys.executable, "-c", SCRIPT]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        digests.add(done.stdout)
    assert len(digests) == 1 and len(digests.pop().split()) == 2


def test_a_timeout_in_virtual_time_sees_the_tokens_that_came_before_it() -> None:
    with open_target("twin:mi325x?jitter_ppm=0&step_longest_ps=0&step_context_ps=0") as target:
        request = Request("r", [ord("x")] * 1024, 500)
        (record,) = target.run(run_wave, [request], concurrency=1, timeout_s=10)
        assert record.outcome is Outcome.TIMEOUT
        assert record.done_ns == 10_000_000_000 + record.sent_ns
        assert record.events == (10_000 - 970) // 74
        assert record.completion_tokens is None
        (after,) = target.run(run_wave, [Request("s", "x", 5)], concurrency=1)
        assert after.outcome is Outcome.COMPLETED
