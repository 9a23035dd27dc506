"""Request bytes."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from k3repro import __version__
from k3repro.client._access import ENDPOINTS, Access
from k3repro.client._model import Request
from k3repro.errors import InputError

__all__ = ["Encoder"]


class Encoder:
    """Writes HTTP/1.1 requests for one server. `prefix` stands before every path; behind a proxy it is the
    whole address. `endpoint` is where texts go (a key of ENDPOINTS).
    """

    def __init__(self, authority: str, prefix: str = "", access: Access | None = None) -> None:
        access = access or Access()
        common = f"Host: {authority}\r\nUser-Agent: k3repro/{__version__}\r\n"
        self._common = common + access.lines
        self._prefix = prefix
        self._heads = {name: self._post_head(path) for name, path in ENDPOINTS.items()}
        self.endpoint = "completions" if access.endpoint == "auto" else access.endpoint
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
        endpoint = "chat" if request.chat and self.endpoint == "completions" else self.endpoint
        options = _options(
            request.max_tokens, request.temperature, request.ignore_eos, tuple(request.stop),
            request.continuous_usage, endpoint == "responses",
        )  # fmt: skip
        prompt = _prompt(request, endpoint)
        body = b"".join((b'{"model":', _dump(self.model).encode(), b",", _FIELDS[endpoint], prompt, options))
        return b"%s%d\r\n\r\n%s" % (self._heads[endpoint], len(body), body)

    def _post_head(self, path: str) -> bytes:
        kinds = "Content-Type: application/json\r\nAccept: text/event-stream\r\nAccept-Encoding: identity\r\n"
        return f"POST {self._prefix}{path} HTTP/1.1\r\n{self._common}{kinds}Content-Length: ".encode(
            "latin-1"
        )


_dump = json.JSONEncoder(ensure_ascii=False).encode
_FIELDS = {"completions": b'"prompt":', "chat": b'"messages":', "responses": b'"input":'}


def _prompt(request: Request, endpoint: str) -> bytes:
    prompt: Any = request.prompt
    if endpoint == "chat" and isinstance(prompt, str):
        prompt = [{"role": "user", "content": prompt}]
    elif endpoint != "completions" and prompt and isinstance(prompt[0], int):
        fix = "Ask an engine that answers /v1/completions."
        raise InputError("token ids need --endpoint completions", where=f"{request.request_id}", fix=fix)
    try:
        return _dump(prompt).encode("utf-8", "surrogatepass")
    except (TypeError, ValueError) as error:
        fix = "a prompt is a str, a list of int, or a list of messages"
        raise InputError(
            f"the prompt is not JSON: {error}", where=f"request {request.request_id}", fix=fix
        ) from None


@lru_cache(maxsize=256)
def _options(
    max_tokens: int, temperature: float, ignore_eos: bool, stop: tuple[str, ...], usage: bool, responses: bool
) -> bytes:
    """The end of a completion document, from the comma after the prompt. `ignore_eos` is no field of OpenAI's
    and is sent only where it is asked for: strict servers refuse what they do not know.
    """
    if responses:
        document: dict[str, Any] = {
            "max_output_tokens": max_tokens,
            "temperature": temperature,
            "stream": True,
        }
        document |= {"ignore_eos": True} if ignore_eos else {}
        return b"," + _dump(document)[1:].encode("utf-8", "surrogatepass")
    stream: dict[str, Any] = {"include_usage": True}
    if usage:
        stream["continuous_usage_stats"] = True
    document = {"max_tokens": max_tokens, "temperature": temperature}
    document |= {"ignore_eos": True} if ignore_eos else {}
    document |= {"stream": True, "stream_options": stream} | ({"stop": stop} if stop else {})
    return b"," + _dump(document)[1:].encode("utf-8", "surrogatepass")
