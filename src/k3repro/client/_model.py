"""Nouns of the client: a request, its one outcome, and the record that is kept of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

from k3repro.errors import InputError

__all__ = ["Outcome", "Prompt", "Request", "RequestRecord"]

Prompt = str | Sequence[int] | Sequence[Mapping[str, Any]]


class Outcome(StrEnum):
    """How a request ended; exactly one each."""

    COMPLETED = "completed"
    FAILED_HTTP = "failed_http"
    FAILED_IN_STREAM = "failed_in_stream"
    TRUNCATED = "truncated"
    TIMEOUT = "timeout"
    STALLED = "stalled"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Request:
    """One streaming completion to ask for.

    `prompt` is text, token ids, or chat messages (with `chat=True`; a text sent to a chat endpoint becomes
    the message of a user). `intended_ns` is when it is due, in
    nanoseconds since the start of the run; None means as soon as a place in the wave is free.
    `continuous_usage` asks the server for usage in every event (vLLM's `continuous_usage_stats`), which
    tells how many tokens the first event carried. `on_token` is called with the arrival time (nanoseconds
    since the start of the run) of every event that carries tokens, where gaps between them are the result.
    """

    request_id: str
    prompt: Prompt
    max_tokens: int
    ignore_eos: bool = True
    stop: Sequence[str] = ()
    temperature: float = 0.0
    chat: bool = False
    intended_ns: int | None = None
    continuous_usage: bool = False
    on_token: Callable[[int], None] | None = None

    def __post_init__(self) -> None:
        if self.max_tokens < 1:
            raise InputError(
                f"max_tokens is {self.max_tokens}",
                where=f"request {self.request_id}",
                fix="ask for at least 1",
            )
        if isinstance(self.stop, str):
            object.__setattr__(self, "stop", (self.stop,))
        if not math.isfinite(self.temperature):
            raise InputError("temperature is not finite", where=f"request {self.request_id}")


@dataclass(slots=True)
class RequestRecord:
    """What happened to one request. Every `*_ns` counts nanoseconds since the start of the run; None: it
    never happened.

    `sent_ns` is when the request was handed to the transport (so a fresh connection counts as latency),
    `done_ns` when its outcome was known. Token counts are the server's `usage`, never the number of
    `events`. `text` is the answer; `reasoning` and `tool_calls` are kept apart from it. `first_token_ns` is
    the first generated token of any kind, `first_answer_ns` the first of the answer. `retries` counts how
    often it was sent again after a refusal (429); times are those of the last try.
    """

    request_id: str
    wave: str
    outcome: Outcome
    http_status: int | None
    finish_reason: str | None
    error: str | None
    intended_ns: int
    sent_ns: int
    first_token_ns: int | None
    last_token_ns: int | None
    done_ns: int
    prompt_tokens: int | None
    completion_tokens: int | None
    cached_tokens: int | None
    first_event_tokens: int | None
    events: int
    text: str
    fingerprint: str | None
    reasoning: str = ""
    tool_calls: str = ""
    first_answer_ns: int | None = None
    retries: int = 0

    @property
    def ttft_s(self) -> float | None:
        """Seconds from send to the first token."""
        return None if self.first_token_ns is None else (self.first_token_ns - self.sent_ns) / 1e9

    @property
    def ttft_from_intended_s(self) -> float | None:
        """Seconds from when the request was due to the first token: queueing in the client counts."""
        return None if self.first_token_ns is None else (self.first_token_ns - self.intended_ns) / 1e9

    @property
    def e2e_s(self) -> float | None:
        """Seconds from send to the end; None unless completed."""
        return (self.done_ns - self.sent_ns) / 1e9 if self.outcome is Outcome.COMPLETED else None

    @property
    def e2e_from_intended_s(self) -> float | None:
        """Seconds from when the request was due to the end; None unless completed."""
        return (self.done_ns - self.intended_ns) / 1e9 if self.outcome is Outcome.COMPLETED else None

    @property
    def first_answer_s(self) -> float | None:
        """Seconds from send to the first token of the answer, after any reasoning."""
        return None if self.first_answer_ns is None else (self.first_answer_ns - self.sent_ns) / 1e9

    @property
    def tpot_s(self) -> float | None:
        """(e2e - ttft) / (completion_tokens - 1), seconds: the publication's time per output token.

        None when no interval was observed: all tokens came in one event, or there was but one.
        """
        return self._per_token(1)

    @property
    def itl_s(self) -> float | None:
        """(e2e - ttft) / (completion_tokens - tokens in the first event), seconds between tokens.

        The first event brought what the server says, or one token where each token had an event of its own
        (but for the one that ended a reply of `stop`, which shows nothing); else None: not known.
        """
        first = self.first_event_tokens
        if first is None and self.events + (self.finish_reason == "stop") >= (self.completion_tokens or 0):
            first = 1
        return None if first is None else self._per_token(first)

    def _per_token(self, first: int) -> float | None:
        later = (self.completion_tokens or 0) - first
        if self.e2e_s is None or self.first_token_ns is None or later < 1 or self.events < 2:
            return None
        return (self.done_ns - self.first_token_ns) / 1e9 / later

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> RequestRecord:
        """The record in a row of REQUESTS_TABLE; columns that older artifacts lack take their defaults."""
        known = {field.name: row[field.name] for field in fields(cls) if field.name in row}
        for field in fields(cls):
            if known.get(field.name) is None and isinstance(field.default, (str, int)):
                known.pop(field.name, None)
        return cls(**known | {"outcome": Outcome(row["outcome"])})

    def as_row(self) -> dict[str, Any]:
        """The record as a row of REQUESTS_TABLE."""
        row = {field.name: getattr(self, field.name) for field in fields(self)}
        row["outcome"] = self.outcome.value
        return row
