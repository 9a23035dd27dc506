"""A whole simulated serve: endpoints over one core. Drivers feed it requests and time."""

from __future__ import annotations

from collections.abc import Callable

from k3repro import __version__
from k3repro.errors import InputError
from k3repro.twin import _tokenizer as tokenizer
from k3repro.twin._core import Core, Flight
from k3repro.twin._intake import Refused, Served, accept, parse_json, prompt_text
from k3repro.twin._metrics import Metrics
from k3repro.twin._platform import Platform
from k3repro.twin._render import FINGERPRINT, Generation, error_reply, json_reply, reply

__all__ = ["Cluster"]


class Cluster:
    """Endpoints of one twin. `handle` answers at once, or starts a generation that the driver carries to
    its end.
    """

    def __init__(self, platform: Platform, seed: int) -> None:
        self.platform = platform
        self.seed = seed
        self.core = Core(platform, seed)
        self.metrics = Metrics(platform, self.mark)
        self.started_s: float | None = None  # wall time of a serve behind HTTP; virtual time has none
        self._served = Served(platform.model, platform.max_model_len, seed, self.mark)
        self._gets: dict[str, Callable[[], bytes]] = {
            "/health": lambda: reply(200, b""),
            "/ping": lambda: reply(200, b""),
            "/version": lambda: json_reply({"version": self.mark}),
            "/v1/models": self._models,
            "/metrics": self._metrics,
        }
        self._posts: dict[str, Callable[[bytes], bytes | tuple[Generation, Flight]]] = {
            "/v1/completions": lambda body: self._generate(body, chat=False),
            "/v1/chat/completions": lambda body: self._generate(body, chat=True),
            "/tokenize": self._tokenize,
            "/detokenize": self._detokenize,
        }

    @property
    def mark(self) -> str:
        """What every answer of the twin carries, so that no proxy can hide what it is."""
        return f"{FINGERPRINT} {__version__} {self.platform.name} seed={self.seed}"

    def handle(
        self, method: str, target: str, body: bytes, content_type: str = "application/json"
    ) -> bytes | tuple[Generation, Flight]:
        """Answer one request at the core's present time: response bytes, or a generation and its flight."""
        path = target.partition("?")[0]
        post = self._posts.get(path)
        if post is not None and method == "POST":
            if content_type.partition(";")[0].strip().lower() != "application/json":
                return error_reply(
                    415, "Unsupported Media Type: Only 'application/json' is allowed", "Bad Request"
                )
            try:
                return post(body)
            except Refused as refused:
                return refused.reply
        get = self._gets.get(path)
        if get is not None and method in ("GET", "HEAD"):
            return get() if method == "GET" else _without_body(get())
        if post is not None or get is not None:
            return json_reply({"detail": "Method Not Allowed"}, 405, {"allow": "POST" if post else "GET"})
        return json_reply({"detail": "Not Found"}, 404)

    def finished(self, flight: Flight, reason: str) -> None:
        """The driver tells the cluster that a flight was delivered or cancelled (for the metrics)."""
        self.metrics.observe(flight, reason)

    def _generate(self, body: bytes, *, chat: bool) -> tuple[Generation, Flight]:
        generation = accept(parse_json(body), self._served, chat=chat)
        flight = self.core.submit(generation.prompt_tokens, len(generation.answer.tokens))
        generation.begin(f"{self.seed:x}-{flight.number:08d}", self.core.now_ns // 1_000_000_000)
        return generation, flight

    def _models(self) -> bytes:
        card = {
            "id": self.platform.model,
            "object": "model",
            "created": 0,
            "owned_by": self.mark,
            "root": self.platform.model,
        }
        return json_reply(
            {
                "object": "list",
                "data": [{**card, "parent": None, "max_model_len": self.platform.max_model_len}],
            }
        )

    def _metrics(self) -> bytes:
        text = self.metrics.text(self.core)
        if self.started_s is not None:
            text += (
                "# HELP process_start_time_seconds Start time of the process since unix epoch in seconds.\n"
            )
            text += f"# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds {self.started_s}\n"
        return reply(200, text.encode(), "text/plain; version=0.0.4; charset=utf-8")

    def _tokenize(self, body: bytes) -> bytes:
        document = parse_json(body)
        text, _ = prompt_text(document, chat="messages" in document)
        ids = tokenizer.encode(text)
        return json_reply(
            {
                "count": len(ids),
                "max_model_len": self.platform.max_model_len,
                "tokens": ids,
                "token_strs": None,
            }
        )

    def _detokenize(self, body: bytes) -> bytes:
        tokens = parse_json(body).get("tokens")
        if not isinstance(tokens, list) or not all(type(token) is int for token in tokens):
            raise Refused(400, "tokens must be a list of token ids", param="tokens")
        try:
            return json_reply({"prompt": tokenizer.decode(tokens)})
        except InputError as error:
            raise Refused(400, error.what, param="tokens") from None


def _without_body(response: bytes) -> bytes:
    return response.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
