"""Request bytes."""

from __future__ import annotations

import json
import os
from functools import lru_cache
from typing import Any

from k3repro import __version__
from k3repro.client._model import Request
from k3repro.errors import InputError

__all__ = ["Encoder"]

KEY_VARIABLE = "K3REPRO_API_KEY"


class Encoder:
    """Writes HTTP/1.1 requests for one server; an API key comes from the environment only."""

    def __init__(self, authority: str, prefix: str = "") -> None:
        key = os.environ.get(KEY_VARIABLE, "")
        common = f"Host: {authority}\r\nUser-Agent: k3repro/{__version__}\r\n"
        self._common = common + (f"Authorization: Bearer {key}\r\n" if key else "")
        self._prefix = prefix
        self._heads = {chat: self._post_head(chat) for chat in (False, True)}
        self.model = ""

    def get(self, path: str) -> bytes:
        """A GET without body."""
        return f"GET {self._prefix}{path} HTTP/1.1\r\n{self._common}Accept: */*\r\n\r\n".encode("latin-1")

    def post(self, path: str, document: Any) -> bytes:
        """A POST of a JSON document."""
        body = json.dumps(document, ensure_ascii=False).encode("utf-8", "surrogatepass")
        head = f"POST {self._prefix}{path} HTTP/1.1\r\n{self._common}Content-Type: application/json\r\n"
        return f"{head}Content-Length: {len(body)}\r\n\r\n".encode("latin-1") + body

    def completion(self, request: Request) -> bytes:
        """A streaming completion."""
        chat, stop = request.chat, tuple(request.stop)
        options = _options(
            request.max_tokens, request.temperature, request.ignore_eos, stop, request.continuous_usage
        )
        prompt = _prompt(request)
        field = b'"messages":' if chat else b'"prompt":'
        body = b"".join((b'{"model":', _dump(self.model).encode(), b",", field, prompt, options))
        return b"%s%d\r\n\r\n%s" % (self._heads[chat], len(body), body)

    def _post_head(self, chat: bool) -> bytes:
        path = "/v1/chat/completions" if chat else "/v1/completions"
        kinds = "Content-Type: application/json\r\nAccept: text/event-stream\r\nAccept-Encoding: identity\r\n"
        return f"POST {self._prefix}{path} HTTP/1.1\r\n{self._common}{kinds}Content-Length: ".encode(
            "latin-1"
        )


_dump = json.JSONEncoder(ensure_ascii=False).encode


def _prompt(request: Request) -> bytes:
    try:
        return _dump(request.prompt).encode("utf-8", "surrogatepass")
    except (TypeError, ValueError) as error:
        fix = "a prompt is a str, a list of int, or a list of messages"
        raise InputError(
            f"the prompt is not JSON: {error}", where=f"request {request.request_id}", fix=fix
        ) from None


@lru_cache(maxsize=256)
def _options(
    max_tokens: int, temperature: float, ignore_eos: bool, stop: tuple[str, ...], usage: bool
) -> bytes:
    """The end of a completion document, from the comma after the prompt."""
    stream: dict[str, Any] = {"include_usage": True}
    if usage:
        stream["continuous_usage_stats"] = True
    document: dict[str, Any] = {
        "max_tokens": max_tokens,
        "temperature": temperature,
        "ignore_eos": ignore_eos,
    }
    document |= {"stream": True, "stream_options": stream} | ({"stop": stop} if stop else {})
    return b"," + _dump(document)[1:].encode("utf-8", "surrogatepass")
