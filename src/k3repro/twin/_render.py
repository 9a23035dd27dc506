"""HTTP/1.1 response bytes of the twin: one place, used by the virtual and the HTTP driver alike."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from k3repro.twin._answers import WORDS, Answer

__all__ = ["FINGERPRINT", "Generation", "error_reply", "json_reply", "reply"]

FINGERPRINT = "k3repro-twin"
_REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    413: "Payload Too Large",
}
_REASONS |= {
    415: "Unsupported Media Type",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
}
_STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\nserver: k3repro-twin\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)
_NOT_FINISHED = b',"logprobs":null,"finish_reason":null,"stop_reason":null}'
_HEX = [b"%x\r\n" % size for size in range(4096)]


def reply(
    status: int, body: bytes, content_type: str = "application/json", headers: Mapping[str, str] = {}
) -> bytes:
    """A whole response with a content-length."""
    extra = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    head = f"HTTP/1.1 {status} {_REASONS[status]}\r\nserver: k3repro-twin\r\n"
    head += f"{extra}content-type: {content_type}\r\n"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


def json_reply(value: Any, status: int = 200, headers: Mapping[str, str] = {}) -> bytes:
    """A JSON response, compact as FastAPI writes it."""
    return reply(status, _dump(value), headers=headers)


def error_reply(status: int, message: str, kind: str = "BadRequestError", param: str | None = None) -> bytes:
    """An error in the shape of vLLM's OpenAI server."""
    return json_reply({"error": {"message": message, "type": kind, "param": param, "code": status}}, status)


def _size(size: int) -> bytes:
    return _HEX[size] if size < 4096 else b"%x\r\n" % size


def _frame(payload: bytes) -> bytes:
    return _size(len(payload)) + payload + b"\r\n"


class Generation:
    """One accepted completion request: what it will say and the bytes that say it."""

    __slots__ = (
        "_closing",
        "_opening",
        "answer",
        "broken",
        "cached_tokens",
        "chat",
        "coalesce",
        "continuous_usage",
        "created",
        "fingerprint",
        "hashes",
        "identity",
        "include_usage",
        "model",
        "prompt_tokens",
        "sent",
        "stream",
    )

    def __init__(
        self,
        answer: Answer,
        prompt_tokens: int,
        *,
        model: str,
        fingerprint: str,
        chat: bool,
        stream: bool,
        include_usage: bool,
        continuous_usage: bool,
    ) -> None:
        self.answer = answer
        self.prompt_tokens = prompt_tokens
        self.model = model
        self.fingerprint = fingerprint
        self.chat = chat
        self.stream = stream
        self.include_usage = include_usage
        self.continuous_usage = continuous_usage
        self.identity = ""
        self.created = 0
        self._opening = self._closing = b""
        self.sent = 0
        self.hashes: list[int] = []
        self.cached_tokens = 0
        self.broken = ""  # "error": ends in an error event; "severed": the connection closes
        self.coalesce: Callable[[int], bool] | None = None  # token travels with the next one

    def begin(self, identity: str, created: int) -> None:
        """Name the response; `created` is in whole seconds of the twin's clock, so that re-runs give the
        same bytes.
        """
        self.identity = ("chatcmpl-" if self.chat else "cmpl-") + identity
        self.created = created
        kind = b"chat.completion.chunk" if self.chat else b"text_completion"
        head = (self.identity.encode(), kind, created, _dump(self.model))
        self._opening = b'data: {"id":"%s","object":"%s","created":%d,"model":%s,"choices":[' % head
        self._closing = b'],"system_fingerprint":' + _dump(self.fingerprint)

    def batch(self, times: Sequence[int]) -> list[tuple[int, bytes]]:
        """(nanoseconds, bytes) for the next `len(times)` tokens; the last one brings the end of the
        response.
        """
        tokens = self.answer.tokens
        first, last = self.sent, self.sent + len(times)
        self.sent = last
        ended = last == len(tokens)
        if not times:
            return []
        if not self.stream:
            return [(times[-1], self._whole())] if ended else []
        if self.coalesce is None:
            out = self._tokens(times, first, last - 1 if ended else last)
        else:
            out = self._coalesced(times, first, last - 1 if ended else last)
        if ended:
            out.append((times[-1], self._ending() if not self.broken else self._break()))
        if not first:
            out[0] = (out[0][0], _STREAM_HEAD + self._role() + out[0][1])
        return out

    def _tokens(self, times: Sequence[int], first: int, last: int) -> list[tuple[int, bytes]]:
        opening, closing = self._around(_NOT_FINISHED)
        if self.continuous_usage:
            return [
                (when, _frame(opening + _quoted(piece) + self._around(_NOT_FINISHED, count)[1]))
                for when, piece, count in zip(
                    times, self.answer.tokens[first:last], range(first + 1, last + 1), strict=False
                )
            ]
        # Pieces of one length make frames of one length, so its hexadecimal prefix is looked up, not
        # computed.
        bare = len(opening) + len(closing)
        return [
            (when, b"%s%s%s%s\r\n" % (_size(bare + len(quoted)), opening, quoted, closing))
            for when, quoted in zip(times, map(_quoted, self.answer.tokens[first:last]), strict=False)
        ]

    def _coalesced(self, times: Sequence[int], first: int, last: int) -> list[tuple[int, bytes]]:
        """Token events of which some bring the text of earlier tokens; a batch holds none back."""
        opening, closing = self._around(_NOT_FINISHED)
        out, text = [], ""
        for when, index in zip(times, range(first, last), strict=False):
            text += self.answer.tokens[index]
            if index + 1 == last or self.coalesce is None or not self.coalesce(index):
                out.append((when, _frame(opening + _quoted(text) + closing)))
                text = ""
        return out

    def _break(self) -> bytes:
        if self.broken == "severed":
            return b""
        error = {"message": "EngineCore encountered an issue.", "type": "InternalServerError"}
        document = {"error": {**error, "param": None, "code": 500}}
        return _frame(b"data: " + _dump(document) + b"\n\n") + _frame(b"data: [DONE]\n\n") + b"0\r\n\r\n"

    def _role(self) -> bytes:
        if not self.chat:
            return b""
        choice = b'{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}'
        return _frame(self._event(choice, None))

    def _around(self, finish: bytes, usage: int | None = None) -> tuple[bytes, bytes]:
        """The bytes before and after the text of a token event; `usage` counts the tokens so far."""
        key = b'{"index":0,"delta":{"content":"' if self.chat else b'{"index":0,"text":"'
        event = self._event(key + b"\0" + (b'"}' if self.chat else b'"') + finish, usage)
        opening, _, closing = event.partition(b"\0")
        return opening, closing

    def _event(self, choice: bytes, usage: int | None) -> bytes:
        tail = b""
        if usage is not None:
            tail = b',"usage":' + _dump(self._usage(usage))
        elif self.include_usage:
            tail = b',"usage":null'
        return b"%s%s%s%s}\n\n" % (self._opening, choice, self._closing, tail)

    def _ending(self) -> bytes:
        tokens = self.answer.tokens
        finish = b',"logprobs":null,"finish_reason":%s,"stop_reason":%s}' % (
            _dump(self.answer.finish_reason),
            _dump(self.answer.stop_reason),
        )
        opening, closing = self._around(finish, len(tokens) if self.continuous_usage else None)
        out = _frame(opening + _quoted(tokens[-1]) + closing)
        if self.include_usage:
            out += _frame(self._event(b"", len(tokens)))
        return out + _frame(b"data: [DONE]\n\n") + b"0\r\n\r\n"

    def _usage(self, completion: int) -> dict[str, Any]:
        total = self.prompt_tokens + completion
        usage: dict[str, Any] = {"prompt_tokens": self.prompt_tokens, "total_tokens": total}
        usage["completion_tokens"] = completion
        if self.cached_tokens:
            usage["prompt_tokens_details"] = {"cached_tokens": self.cached_tokens}
        return usage

    def _whole(self) -> bytes:
        if self.broken:
            return error_reply(500, "EngineCore encountered an issue.", "InternalServerError")
        text = self.answer.text
        message = {"message": {"role": "assistant", "content": text}} if self.chat else {"text": text}
        ends = {"finish_reason": self.answer.finish_reason, "stop_reason": self.answer.stop_reason}
        return json_reply(
            {
                "id": self.identity,
                "object": "chat.completion" if self.chat else "text_completion",
                "created": self.created,
                "model": self.model,
                "choices": [{"index": 0, **message, "logprobs": None, **ends}],
                "system_fingerprint": self.fingerprint,
                "usage": self._usage(len(self.answer.tokens)),
            }
        )


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def _dump(value: Any) -> bytes:
    return _encode(value).encode("utf-8", "surrogatepass")


_WORD_BYTES = {word: word.encode() for word in WORDS}


def _quoted(text: str) -> bytes:
    """`text` as the inside of a JSON string."""
    return _WORD_BYTES.get(text) or _dump(text)[1:-1]
