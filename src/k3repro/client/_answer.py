"""What a response said: answer, reasoning, tool calls, usage, finish reason, errors, and when tokens came."""

from __future__ import annotations

import json
import re
from typing import Any

from k3repro.client._delta import ANSWER, CHANNELS, REASONING, TOOLS, Part, parts_of
from k3repro.client._responses import as_chunk

__all__ = ["AnswerReader"]

_NEVER = 1 << 62
_MOST_TOKENS = 1 << 53
_TAGS = re.compile(r"<[^>]*>")
_MOST_LESSONS = 4  # a stream whose events keep changing shape is parsed throughout


class AnswerReader:
    """Collects the events of one response. Set `now_ns` to the arrival time of bytes before handing them
    over.

    An event counts in `events`, and as a token's arrival, when it carries generated text of any kind, or
    when a step gave nothing to show (an empty text); not a role, a finish reason or usage alone.
    Once an event with plain text has been read with the JSON parser, later events that differ from it only in
    that text are recognised by their bytes; all others are parsed.
    """

    __slots__ = (
        "_channel",
        "_lessons",
        "_parts",
        "_prefix",
        "_shortest",
        "_suffix",
        "cached_tokens",
        "completion_tokens",
        "done",
        "error",
        "events",
        "fingerprint",
        "finish_reason",
        "first_answer_ns",
        "first_event_tokens",
        "first_token_ns",
        "last_token_ns",
        "now_ns",
        "prompt_tokens",
        "remark",
        "streamed",
    )

    def __init__(self) -> None:
        self._parts: dict[str, list[str]] = {channel: [] for channel in CHANNELS}
        self._channel = self._parts[ANSWER]
        self._prefix = b""
        self._suffix = b""
        self._shortest = _NEVER
        self._lessons = 0
        self.now_ns = 0
        self.events = 0
        self.first_token_ns: int | None = None
        self.last_token_ns: int | None = None
        self.first_answer_ns: int | None = None
        self.finish_reason: str | None = None
        self.prompt_tokens: int | None = None
        self.completion_tokens: int | None = None
        self.cached_tokens: int | None = None
        self.first_event_tokens: int | None = None
        self.fingerprint: str | None = None
        self.error: str | None = None
        self.remark: str | None = None
        self.done = False
        self.streamed = True

    @property
    def text(self) -> str:
        """The answer; half a surrogate pair, which is no text, as U+FFFD."""
        return _whole("".join(self._parts[ANSWER]))

    @property
    def reasoning(self) -> str:
        """What was thought before the answer, where the server tells the two apart."""
        return _whole("".join(self._parts[REASONING]))

    @property
    def tool_calls(self) -> str:
        """Names and arguments of the tools called, as streamed."""
        return _whole("".join(self._parts[TOOLS]))

    def event(self, data: bytes, name: bytes) -> None:
        """One server-sent event, completed by bytes that arrived at `now_ns`."""
        if len(data) >= self._shortest and data.startswith(self._prefix) and data.endswith(self._suffix):
            raw = data[len(self._prefix) : len(data) - len(self._suffix)]
            # Printable ASCII without quote and backslash stands for itself in JSON.
            if raw.isascii() and b'"' not in raw and b"\\" not in raw and not name and not self.done:
                text = raw.decode()
                if text.isprintable():
                    self.events += 1
                    self._channel.append(text)
                    self.last_token_ns = self.now_ns
                    return
        self._parse(data, name)

    def plain(self, body: bytes) -> None:
        """The whole body of a response that was not an event stream."""
        self.streamed = False
        document = _document(body)
        if document is None:
            self.error = "the body is neither an event stream nor JSON"
        elif not self._failed(document):
            self._choices(document, timed=False)
            self._usage(document, first=False)
            self.remark = "not streamed: there is no first-token time"

    def refused(self, body: bytes) -> None:
        """The body of a response whose status is not 200: why, in the server's own words."""
        document = _document(body) or {}
        problem = document.get("error", document.get("detail", document.get("message")))
        if isinstance(problem, dict):
            problem = problem.get("message", problem)
        text = str(problem) if problem else _TAGS.sub(" ", body[:2000].decode("utf-8", "replace"))
        self.error = _whole(" ".join(text.split())[:300]) or None

    def _parse(self, data: bytes, name: bytes) -> None:
        if data.strip() == b"[DONE]":
            if self.done:
                self.remark = "more than one [DONE]"
            self.done = True
            return
        document = _document(data)
        if document is None:
            self.error = self.error or f"an event is not a JSON object: {data[:80]!r}"
            return
        if name == b"error" and "error" not in document:
            document = {"error": document}
        document = as_chunk(document) or document
        if self._failed(document):
            return
        if self.done:
            self.remark = "events after [DONE]"
            return
        before = self.events
        simple = self._choices(document, timed=True)
        self._usage(document, first=before == 0 and self.events == 1)
        if simple is not None and self._lessons < _MOST_LESSONS:
            self._learn(data, simple)

    def _failed(self, document: dict[str, Any]) -> bool:
        problem = document.get("error")
        if not problem and "error" not in (document.get("object"), document.get("type")):
            return False
        message = (
            problem.get("message", problem)
            if isinstance(problem, dict)
            else problem or document.get("message")
        )
        self.error = self.error or _whole(str(message)[:300])
        return True

    def _choices(self, document: dict[str, Any], *, timed: bool) -> Part | None:
        """Read the one choice; its text when the event carries nothing but one plain text."""
        fingerprint = document.get("system_fingerprint")
        if isinstance(fingerprint, str):
            self.fingerprint = _whole(fingerprint)
        choices = document.get("choices")
        if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
            return None
        choice = choices[0]
        if len(choices) > 1 or choice.get("index") not in (0, None):
            self.error = self.error or "more than the one choice that was asked for"
            return None
        body = choice.get("delta") or choice.get("message") or choice
        if not isinstance(body, dict):
            self.error = self.error or f"a choice is not an object: {str(body)[:80]!r}"
            return None
        parts, finish = parts_of(body), choice.get("finish_reason")
        for part in parts:
            self._parts[part.channel].append(part.text)
        if timed and (parts or not (finish or "role" in body)):
            self._token(parts)
        if isinstance(finish, str):
            self.finish_reason = _whole(finish)
            return None
        plain = len(parts) == 1 and parts[0].key is not None and not _usage_of(document)
        return parts[0] if plain else None

    def _token(self, parts: list[Part]) -> None:
        """At least one token has arrived."""
        self.events += 1
        self.last_token_ns = self.now_ns
        if self.first_token_ns is None:
            self.first_token_ns = self.now_ns
        if self.first_answer_ns is None and any(part.channel == ANSWER for part in parts):
            self.first_answer_ns = self.now_ns

    def _usage(self, document: dict[str, Any], *, first: bool) -> None:
        usage = _usage_of(document)
        if usage is None:
            return
        self.prompt_tokens = _count(usage.get("prompt_tokens"), self.prompt_tokens)
        self.completion_tokens = _count(usage.get("completion_tokens"), self.completion_tokens)
        details = usage.get("prompt_tokens_details")
        if isinstance(details, dict):
            self.cached_tokens = _count(details.get("cached_tokens"), self.cached_tokens)
        if first:
            self.first_event_tokens = self.completion_tokens

    def _learn(self, data: bytes, part: Part) -> None:
        """Split `data`, which says one text and nothing else, into what stands before and after that text.

        A JSON key can be found by its bytes: between an opening quote that no backslash precedes and the
        colon. If it occurs once, the string after it is the one the parser read.
        """
        if part.channel == ANSWER and self.first_answer_ns is None:
            return
        self._lessons += 1
        key = b'"%s":' % str(part.key).encode()
        at = data.find(key)
        start = at + len(key)
        start += data[start : start + 1] == b" "
        quoted = json.dumps(part.text, ensure_ascii=False).encode("utf-8", "surrogatepass")
        if at < 1 or data[at - 1] == 0x5C or data.count(key) != 1 or not data.startswith(quoted, start):
            return
        self._prefix, self._suffix = data[: start + 1], data[start + len(quoted) - 1 :]
        self._shortest = len(self._prefix) + len(self._suffix)
        self._channel = self._parts[part.channel]


_decode = json.JSONDecoder().decode


def _document(data: bytes) -> dict[str, Any] | None:
    try:
        value = _decode(data.decode())
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _usage_of(document: dict[str, Any]) -> dict[str, Any] | None:
    """Usage where servers put it: in the document, or in its only choice."""
    usage, choices = document.get("usage"), document.get("choices")
    if not usage and isinstance(choices, list) and choices and isinstance(choices[0], dict):
        usage = choices[0].get("usage")
    return usage if isinstance(usage, dict) and usage else None


def _whole(text: str) -> str:
    """Text with halves of surrogate pairs joined, and lone ones replaced: a file can hold it."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _count(value: Any, otherwise: int | None) -> int | None:
    """A count of tokens; what no counter could hold is no count."""
    return value if type(value) is int and 0 <= value < _MOST_TOKENS else otherwise
