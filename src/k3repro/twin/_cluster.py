"""A whole simulated serve: endpoints over one core. Drivers feed it requests and time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from urllib.parse import unquote

from k3repro import __version__
from k3repro.errors import InputError, UsageError
from k3repro.twin import _tokenizer as tokenizer
from k3repro.twin._answers import Answer, garbled, instead
from k3repro.twin._core import Flight
from k3repro.twin._defects import Defects
from k3repro.twin._intake import Refused, Served, accept, parse_json, prompt_text
from k3repro.twin._metrics import Metrics
from k3repro.twin._needle import UNKNOWN_ANSWER
from k3repro.twin._platform import Platform
from k3repro.twin._render import FINGERPRINT, Generation, error_reply, json_reply, reply
from k3repro.twin.single_core import core_of

__all__ = ["Cluster"]

PREAMBLE_TOKENS = 60


class Cluster:
    """Endpoints of one twin. `handle` answers at once, or starts a generation that the driver carries to
    its end.
    """

    def __init__(self, platform: Platform, seed: int) -> None:
        if not -(2**63) <= seed < 2**63:
            raise UsageError(f"the seed is {str(seed)[:40]}", where="target", fix="at most 64 bits")
        self.platform = platform
        self.seed = seed
        self.core = core_of(platform, seed)
        self.metrics = Metrics(platform, self.mark)
        self.punctuality: Callable[[], Mapping[float, int]] = dict  # writes at most so many seconds late
        self.started_s: float | None = None  # wall time of a serve behind HTTP; virtual time has none
        self._said: dict[int, Answer] = {}
        defects = self.core.defects
        if defects is not None:
            self.metrics.skew_ns = defects.skew_ns
        self._served = Served(
            platform.model,
            platform.max_model_len,
            seed,
            self.mark,
            self.core.pages.block_tokens if platform.prefix_caching else 0,
            self._twist if defects is not None else None,
        )
        self._gets: dict[str, Callable[[], bytes]] = {
            "/health": lambda: reply(200, b""),
            "/ping": lambda: reply(200, b""),
            "/version": lambda: json_reply({"version": self.mark}),
            "/v1/models": self._models,
            "/metrics": self._metrics,
        }
        self._posts: dict[str, Callable[[bytes, int | None], bytes | tuple[Generation, Flight]]] = {
            "/v1/completions": lambda body, lane: self._generate(body, lane, chat=False),
            "/v1/chat/completions": lambda body, lane: self._generate(body, lane, chat=True),
            "/tokenize": lambda body, lane: self._tokenize(body),
            "/detokenize": lambda body, lane: self._detokenize(body),
        }

    @property
    def mark(self) -> str:
        """What every answer of the twin carries, so that no proxy can hide what it is."""
        return f"{FINGERPRINT} {__version__} {self.platform.name} seed={self.seed}"

    def handle(
        self, method: str, target: str, body: bytes, content_type: str = "application/json",
        lane: int | None = None,
    ) -> bytes | tuple[Generation, Flight]:  # fmt: skip
        """Answer one request at the core's present time: response bytes, or a generation and its flight.

        `lane` is the rank a router chose for it; without it lanes take turns.
        """
        path = _path(target)
        if method == "HEAD":  # only /metrics, which is mounted and no route of the engine, knows it
            return _without_body(self._metrics() if path == "/metrics" else self._refusal(path))
        post = self._posts.get(path)
        if post is not None and method == "POST":
            if content_type.partition(";")[0].strip().lower() != "application/json":
                return error_reply(
                    415, "Unsupported Media Type: Only 'application/json' is allowed", "Bad Request"
                )
            try:
                return post(body, lane)
            except Refused as refused:
                return refused.reply
        get = self._gets.get(path)
        return get() if get is not None and method == "GET" else self._refusal(path)

    def _refusal(self, path: str) -> bytes:
        """The answer to a path that does not exist, or not for this method."""
        if path not in self._posts and path not in self._gets:
            return json_reply({"detail": "Not Found"}, 404)
        allowed = "POST" if path in self._posts else "GET"
        return json_reply({"detail": "Method Not Allowed"}, 405, {"allow": allowed})

    def finished(self, flight: Flight, reason: str) -> None:
        """The driver tells the cluster that a flight was delivered or cancelled (for the metrics)."""
        self.metrics.observe(flight, reason)

    def batch(self, generation: Generation, flight: Flight) -> list[tuple[int, bytes]]:
        """(nanoseconds, bytes) of a flight up to now that were not handed out before."""
        times = self.core.drain(flight)
        if not generation.sent and times:
            generation.cached_tokens = flight.cached_tokens
            if flight.mark:
                generation.answer = self._spoiled(generation.answer, flight)
        return generation.batch(times)

    def _spoiled(self, said: Answer, flight: Flight) -> Answer:
        if flight.mark == "no context":
            return instead(tokenizer.pieces(" " + UNKNOWN_ANSWER), said)
        owner = self._said.get(int(flight.mark.rpartition(" ")[2])) if flight.mark != "stale" else None
        return instead(owner.tokens, said) if owner is not None else garbled(flight.number, said)

    def _twist(self, prompt: str, chat: bool) -> tuple[bool, int]:
        defects, number = self.core.defects, self.core.submitted
        if defects is None:
            return False, 0
        preamble = PREAMBLE_TOKENS if chat and defects.strikes("preamble", number) else 0
        return defects.misses(prompt, number), preamble

    def _generate(self, body: bytes, lane: int | None, *, chat: bool) -> tuple[Generation, Flight]:
        generation = accept(parse_json(body), self._served, chat=chat)
        defects = self.core.defects
        if defects is not None:
            self._strike(generation, defects)
        tokens = len(generation.answer.tokens)
        flight = self.core.submit(generation.prompt_tokens, tokens, generation.hashes, lane)
        generation.begin(f"{self.seed:x}-{flight.number:08d}", self.core.now_ns // 1_000_000_000)
        return generation, flight

    def _strike(self, generation: Generation, defects: Defects) -> None:
        """Defects that show in how a request is answered."""
        number = self.core.submitted
        if defects.refuses(self.core):
            raise Refused(500, "Internal Server Error", "InternalServerError")
        if defects.strikes("in-stream-error", number):
            generation.broken = "error"
            self.core.log.append("EngineCore encountered an issue; the request was aborted")
        elif defects.strikes("decode-restarted", number):
            generation.broken = "severed"
            self.core.failed_transfers[number % self.platform.lanes] += 1
            self.core.log.append("Timed out waiting for write_ready_flags")
        if generation.broken:
            said = generation.answer
            generation.answer = Answer(said.tokens[: max(1, len(said.tokens) // 2)], "abort")
        if defects.rate("coalesced-events"):
            generation.coalesce = lambda index: defects.strikes("coalesced-events", number << 24 | index)
        if defects.rate("state-recycle"):
            self._said[number] = generation.answer

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
        if late := self.punctuality():
            name = "k3repro_twin_deadline_miss_seconds"
            text += f"# HELP {name} How late events were written.\n# TYPE {name} histogram\n"
            for bound, count in late.items():
                text += f'{name}_bucket{{le="{bound:g}"}} {count}\n'.replace('"inf"', '"+Inf"')
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


def _path(target: str) -> str:
    """The path that a request target names, as uvicorn hands it to the engine's routes."""
    path = target.partition("?")[0]
    if not path.startswith("/"):  # absolute form, as sent to proxies
        path = "/" + path.partition("://")[2].partition("/")[2]
    return unquote(path) if "%" in path else path


def _without_body(response: bytes) -> bytes:
    return response.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
