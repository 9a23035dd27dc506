"""Request bytes."""

from __future__ import annotations

import json
import os
from typing import Any

from k3repro import __version__
from k3repro.client._model import Request

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
        document: dict[str, Any] = {
            "model": self.model,
            "messages" if request.chat else "prompt": request.prompt,
            "max_tokens": request.max_tokens,
            "temperature": request.temperature,
            "ignore_eos": request.ignore_eos,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if request.stop:
            document["stop"] = list(request.stop)
        if request.continuous_usage:
            document["stream_options"]["continuous_usage_stats"] = True
        body = json.dumps(document, ensure_ascii=False).encode("utf-8", "surrogatepass")
        return self._heads[request.chat] + b"%d\r\n\r\n" % len(body) + body

    def _post_head(self, chat: bool) -> bytes:
        path = "/v1/chat/completions" if chat else "/v1/completions"
        kinds = "Content-Type: application/json\r\nAccept: text/event-stream\r\nAccept-Encoding: identity\r\n"
        return f"POST {self._prefix}{path} HTTP/1.1\r\n{self._common}{kinds}Content-Length: ".encode(
            "latin-1"
        )
