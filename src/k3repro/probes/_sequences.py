"""Whole greedy answers, token by token with log-probabilities, and where two of them part.

One POST an answer (`logprobs: 2`, token ids instead of text where the engine gives them), not a stream: a
stream's events need not be tokens. A server without log-probabilities is compared by its text.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from k3repro.client import Outcome, Request, RequestRecord

_ID = "token_id:"


@dataclass(frozen=True, slots=True)
class Answer:
    """Tokens of one greedy answer (ids as text; characters where the engine gives no tokens).

    `logprobs` and `margins` (top-1 minus top-2, in nats) are empty where the engine does not report them.
    """

    tokens: tuple[str, ...]
    logprobs: tuple[float, ...] = ()
    margins: tuple[float | None, ...] = ()
    cached_tokens: int | None = None

    @property
    def with_tokens(self) -> bool:
        """Whether the tokens are the engine's own."""
        return bool(self.logprobs)


@dataclass(frozen=True, slots=True)
class Parting:
    """Where two answers part: index of the first differing token (None: nowhere), the larger of the two
    top-2 margins there, and the largest log-probability difference before it. None: not reported.
    """

    first: int | None
    margin: float | None
    dlp: float | None

    def near_tie(self, max_margin: float, max_dlp: float) -> bool:
        """Whether rounding explains it: equal, or parted at a near tie, log-probabilities alike before."""
        if self.dlp is not None and self.dlp > max_dlp:
            return False
        return self.first is None or (self.margin is not None and self.margin <= max_margin)


def part(reference: Answer, other: Answer) -> Parting:
    """Compare two answers to one prompt."""
    pairs = list(zip(reference.tokens, other.tokens, strict=False))
    first = next((index for index, (a, b) in enumerate(pairs) if a != b), None)
    if first is None and len(reference.tokens) != len(other.tokens):
        first = len(pairs)
    if not (reference.with_tokens and other.with_tokens):
        return Parting(first, None, None)
    before = zip(reference.logprobs[:first], other.logprobs[:first], strict=False)
    dlp = max((abs(a - b) for a, b in before), default=0.0)
    if first is None or first >= len(pairs):
        return Parting(first, None, dlp)
    sides = [answer.margins[first] for answer in (reference, other)]
    known = [margin for margin in sides if margin is not None]
    return Parting(first, max(known) if len(known) == len(sides) else None, dlp)


def digest(prompt: Any) -> str:
    """sha256 of a prompt, text or token ids."""
    return hashlib.sha256(json.dumps(prompt, ensure_ascii=True).encode()).hexdigest()


def read(document: Mapping[str, Any]) -> Answer:
    """The answer in a completion document.

    Raises:
        ValueError: the document has no choice with text.
    """
    choice = document["choices"][0] if document.get("choices") else None
    if not isinstance(choice, dict) or not isinstance(choice.get("text"), str):
        raise ValueError("no choice with text")
    usage = document.get("usage") or {}
    details = usage.get("prompt_tokens_details") or {}
    cached = details.get("cached_tokens")
    found = choice.get("logprobs") or {}
    tokens, logprobs = found.get("tokens"), found.get("token_logprobs")
    if not tokens or not logprobs or None in logprobs or len(tokens) != len(logprobs):
        return Answer(tuple(choice["text"]), cached_tokens=cached)
    tops = found.get("top_logprobs") or [None] * len(tokens)
    names = tuple(str(token).removeprefix(_ID) for token in tokens)
    return Answer(names, tuple(map(float, logprobs)), tuple(_margin(top) for top in tops), cached)


def _margin(top: Any) -> float | None:
    if not isinstance(top, dict) or len(top) < 2:
        return None
    first, second, *_ = sorted(map(float, top.values()), reverse=True)
    return first - second


def document_of(target: Any, request: Request, **more: Any) -> dict[str, Any]:
    """The completion document that asks for one whole greedy answer."""
    return {
        "model": target.model, "prompt": request.prompt, "max_tokens": request.max_tokens, "temperature": 0.0,
        "seed": 0, "ignore_eos": request.ignore_eos, "stream": False, "logprobs": 2,
        "return_tokens_as_token_ids": True, **more,
    }  # fmt: skip


Keep = Callable[[str, Answer], None]
OnRecord = Callable[[RequestRecord], None]


async def ask_wave(
    target: Any,
    requests: Sequence[Request],
    *,
    keep: Keep,
    concurrency: int,
    timeout_s: float,
    wave: str,
    on_record: OnRecord | None = None,
) -> list[RequestRecord]:
    """Send `requests`, at most `concurrency` in flight; `keep` gets each answer, records come back."""
    places = asyncio.Semaphore(concurrency)
    await target.prepare(min(concurrency, len(requests)))

    async def one(request: Request) -> RequestRecord:
        async with places:
            record = await ask(target, request, document_of(target, request), keep, timeout_s, wave)
        if on_record is not None:
            on_record(record)
        return record

    return list(await asyncio.gather(*(one(request) for request in requests)))


async def ask(
    target: Any, request: Request, document: Mapping[str, Any], keep: Keep, timeout_s: float, wave: str
) -> RequestRecord:
    """One whole answer; its record has no first-token time, because nothing was streamed."""
    sent = target.now_ns()
    if target.stopping:
        return _record(request, wave, Outcome.CANCELLED, "not sent: the run was stopped", sent, sent)
    answer = await target.fetch("/v1/completions", document, timeout_s=timeout_s)
    done = target.now_ns()
    if answer.status != 200:
        kind = Outcome.TIMEOUT if answer.status is None and "no answer" in (answer.problem or "") else None
        why = answer.problem or f"HTTP {answer.status}: {answer.body[:200].decode('utf-8', 'replace')}"
        return _record(request, wave, kind or Outcome.FAILED_HTTP, why, sent, done, status=answer.status)
    try:
        body = json.loads(answer.body)
        said = read(body)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return _record(
            request, wave, Outcome.FAILED_IN_STREAM, f"not a completion: {error}", sent, done, status=200
        )
    record = _record(request, wave, Outcome.COMPLETED, None, sent, done, status=200, body=body)
    target.observe(record)
    keep(request.request_id, said)
    return record


def _record(
    request: Request, wave: str, outcome: Outcome, error: str | None, sent: int, done: int,
    *, status: int | None = None, body: Mapping[str, Any] | None = None,
) -> RequestRecord:  # fmt: skip
    body = body or {}
    usage, choice = body.get("usage") or {}, (body.get("choices") or [{}])[0]
    counted = usage.get("completion_tokens")
    if outcome is Outcome.COMPLETED and counted is not None and counted != request.max_tokens:
        outcome, error = Outcome.TRUNCATED, f"{counted} of {request.max_tokens} tokens"
    # cached_tokens stay out of the record: this probe repeats its prompts on purpose (see `sequences`).
    return RequestRecord(
        request_id=request.request_id, wave=wave, outcome=outcome, http_status=status,
        finish_reason=choice.get("finish_reason"), error=error, intended_ns=sent, sent_ns=sent,
        first_token_ns=None, last_token_ns=None, done_ns=done, prompt_tokens=usage.get("prompt_tokens"),
        completion_tokens=counted, cached_tokens=None, first_event_tokens=None, events=0,
        text=str(choice.get("text", "")), fingerprint=body.get("system_fingerprint"),
    )  # fmt: skip
