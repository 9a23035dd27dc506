"""HTTP/1.1 response bytes of the twin: one place, used by the virtual and the HTTP driver alike."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from k3repro.twin._answers import Answer

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
    body = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    return reply(status, body, headers=headers)


def error_reply(status: int, message: str, kind: str = "BadRequestError", param: str | None = None) -> bytes:
    """An error in the shape of vLLM's OpenAI server."""
    return json_reply({"error": {"message": message, "type": kind, "param": param, "code": status}}, status)


def _frame(payload: bytes) -> bytes:
    size = len(payload)
    return (_HEX[size] if size < 4096 else b"%x\r\n" % size) + payload + b"\r\n"


class Generation:
    """One accepted completion request: what it will say and the bytes that say it."""

    __slots__ = (
        "_body",
        "_cut",
        "_finish_at",
        "_head",
        "_tail",
        "answer",
        "chat",
        "continuous_usage",
        "created",
        "fingerprint",
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
        self.sent = 0

    def begin(self, identity: str, created: int) -> None:
        """Name the response; `created` is in whole seconds of the twin's clock, so that re-runs give the
        same bytes.
        """
        self.identity = ("chatcmpl-" if self.chat else "cmpl-") + identity
        self.created = created

    def batch(self, times: Sequence[int]) -> list[tuple[int, bytes]]:
        """(nanoseconds, bytes) for the next `len(times)` tokens; the last token brings the end of the
        response.
        """
        tokens = self.answer.tokens
        first, last = self.sent, self.sent + len(times)
        self.sent = last
        if not self.stream:
            return [(times[-1], self._whole())] if times and last == len(tokens) else []
        if not times:
            return []
        prefix, suffix = self._around()
        ended = last == len(tokens)
        body = tokens[first : last - 1 if ended else last]
        if self.continuous_usage:
            out = [
                (t, _frame(self._event(self._choice(text), self._usage(first + i + 1))))
                for i, (t, text) in enumerate(zip(times, body, strict=False))
            ]
        else:
            quoted = [piece.encode() if piece.isalnum() else _quoted(piece) for piece in body]
            out = [(t, _frame(prefix + piece + suffix)) for t, piece in zip(times, quoted, strict=False)]
        if ended:
            out.append((times[-1], self._ending()))
        if not first:
            out[0] = (out[0][0], _STREAM_HEAD + self._role() + out[0][1])
        return out

    def _around(self) -> tuple[bytes, bytes]:
        marker = "\x00"
        event = self._event(self._choice(marker), None)
        prefix, _, suffix = event.partition(b"\\u0000")
        return prefix, suffix

    def _role(self) -> bytes:
        if not self.chat:
            return b""
        choice = {
            "index": 0,
            "delta": {"role": "assistant", "content": ""},
            "logprobs": None,
            "finish_reason": None,
        }
        return _frame(self._event(choice, None))

    def _choice(self, text: str, finish: str | None = None) -> dict[str, Any]:
        content: dict[str, Any] = {"delta": {"content": text}} if self.chat else {"text": text}
        stop = self.answer.stop_reason if finish else None
        return {"index": 0, **content, "logprobs": None, "finish_reason": finish, "stop_reason": stop}

    def _event(self, choice: dict[str, Any] | None, usage: dict[str, Any] | None) -> bytes:
        document: dict[str, Any] = {
            "id": self.identity,
            "object": "chat.completion.chunk" if self.chat else "text_completion",
            "created": self.created,
            "model": self.model,
            "choices": [choice] if choice else [],
            "system_fingerprint": self.fingerprint,
        }
        if self.include_usage or usage:
            document["usage"] = usage
        text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
        return b"data: " + text.encode("utf-8", "surrogatepass") + b"\n\n"

    def _ending(self) -> bytes:
        tokens = self.answer.tokens
        usage = self._usage(len(tokens))
        last = self._choice(tokens[-1], self.answer.finish_reason)
        out = _frame(self._event(last, usage if self.continuous_usage else None))
        if self.include_usage:
            out += _frame(self._event(None, usage))
        return out + _frame(b"data: [DONE]\n\n") + b"0\r\n\r\n"

    def _usage(self, completion: int) -> dict[str, Any]:
        total = self.prompt_tokens + completion
        return {"prompt_tokens": self.prompt_tokens, "total_tokens": total, "completion_tokens": completion}

    def _whole(self) -> bytes:
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


def _quoted(text: str) -> bytes:
    return json.dumps(text, ensure_ascii=False)[1:-1].encode("utf-8", "surrogatepass")
