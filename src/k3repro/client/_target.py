"""What a probe talks to: a server behind a transport, with a clock, a thread and evidence of what it is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar
from urllib.parse import urlsplit

from k3repro import serve
from k3repro.client._access import Access
from k3repro.client._address import Address, TwinAddress, parse_target
from k3repro.client._advice import advice
from k3repro.client._clock import new_loop
from k3repro.client._encode import Encoder
from k3repro.client._endpoint import find_endpoint
from k3repro.client._evidence import engine_of, evidence_of, max_model_len_of, model_of, twin_evidence
from k3repro.client._exchange import Handle, Receiver
from k3repro.client._fetch import Fetch, Fetched
from k3repro.client._model import Request, RequestRecord
from k3repro.client._place import place_mark
from k3repro.client._runner import Runner
from k3repro.client._sockets import SocketTransport
from k3repro.client._wave import run_wave
from k3repro.errors import TargetError, UsageError
from k3repro.registry import load

__all__ = ["Target", "fetch_url", "open_target", "wave_at"]

P = ParamSpec("P")
T = TypeVar("T")
_QUESTIONS = ("/version", "/v1/models", "/health", "/metrics")
_PROBE_TIMEOUT_S = 15.0
_TLS_FIX = "Trust its certificate with --ca-file FILE ($SSL_CERT_FILE), or do not check it: --insecure."


class _Carrier(Protocol):
    def open(self, request: bytes, receiver: Receiver) -> Handle: ...


class Target:
    """An open target. Use it as a context manager; call it from any thread, one call at a time.

    `clock` is ``virtual`` or ``wall``; `serve` holds the facts learned (``evidence``, ``version``,
    ``models``...); `engine` is what answered and its version (``vllm-0.26.0``), empty where nobody says.
    """

    def __init__(
        self,
        address: Address | TwinAddress,
        *,
        seed: int,
        model: str | None,
        timeout_s: float,
        access: Access,
        name: str = "",
        hardware: str = "",
    ) -> None:
        self.address = address
        self.engine = ""
        self._name = name
        self._hardware = hardware
        self.seed = seed
        self.clock = "virtual" if isinstance(address, TwinAddress) else "wall"
        self.model = model or ""
        self.max_model_len: int | None = None
        self.serve: dict[str, Any] = {"evidence": []}
        self.stopping = False
        self.endpoint = "completions"
        self.transport: _Carrier
        self._timeout_s = timeout_s
        self._access = access
        # The twin is made before the thread, so that a bad platform or setting fails without one.
        self._twin = _twin_cluster(address, seed) if isinstance(address, TwinAddress) else None
        self.encoder = Encoder("twin", access=Access(endpoint=access.endpoint))
        self.encode: Callable[[Request], bytes] = self.encoder.completion
        loop, self.now_ns = new_loop(self.clock)
        self._runner = Runner(loop)
        try:
            self._runner.run(self._open(), self.stop)
        except BaseException:
            self.close()
            raise

    @property
    def subject(self) -> str:
        """What artifacts call it: ``vllm-0.26.0/MODEL@HARDWARE#mark`` as far as known, never an address.

        The mark tells addresses apart; a name of the user's takes the place of model and mark.
        """
        if self.clock == "virtual":
            return self.address.where
        called = self._name or self.model or "serve"
        called += f"@{self._hardware}" if self._hardware and "@" not in called else ""
        called += "" if self._name else f"#{place_mark(self.address.where)}"
        return f"{self.engine}/{called}" if self.engine else called

    def run(
        self,
        function: Callable[Concatenate[Target, P], Coroutine[Any, Any, T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Result of ``await function(self, ...)``, run in the target's own thread and loop.

        The first Ctrl-C sends nothing more and lets what is in flight finish; a second one aborts it.
        Either way KeyboardInterrupt is raised afterwards; records reach the caller through `on_record`.
        """
        self.stopping = False
        return self._runner.run(function(self, *args, **kwargs), self.stop)

    def stop(self) -> None:
        """Send no more requests; what is in flight finishes."""
        self.stopping = True

    async def fetch(self, path: str, document: Any = None, *, timeout_s: float | None = None) -> Fetched:
        """GET `path`, or POST `document` to it; `timeout_s` where the target's own limit is too short."""
        request = self.encoder.get(path) if document is None else self.encoder.post(path, document)
        return await self._fetched(request, self._timeout_s if timeout_s is None else timeout_s)

    async def _fetched(self, request: bytes, limit: float) -> Fetched:
        fetch = Fetch(asyncio.get_running_loop().create_future())
        fetch.handle = handle = self.transport.open(request, fetch)
        try:
            async with asyncio.timeout(limit):
                return await fetch.future
        except TimeoutError:
            handle.abort()
            return Fetched(None, {}, b"", f"no answer within {limit:g} s")

    async def prepare(self, count: int) -> None:
        """Have `count` connections ready (sockets only)."""
        if isinstance(self.transport, SocketTransport):
            await self.transport.prepare(count)

    def observe(self, record: RequestRecord) -> None:
        """Take evidence from a record: the mark of the twin survives in its stream."""
        if record.fingerprint is not None:
            self._add(twin_evidence(record.fingerprint))

    def close(self) -> None:
        """Close connections and end the thread."""
        transport = getattr(self, "transport", None)
        if isinstance(transport, SocketTransport):
            self._runner.run(transport.close(), self.stop)
        self._runner.close()

    def __enter__(self) -> Target:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def _open(self) -> None:
        loop = asyncio.get_running_loop()
        if self._twin is not None:
            driver, cluster = self._twin
            self.transport = driver(cluster, loop, self.now_ns)
        else:
            assert isinstance(self.address, Address)
            self.transport = sockets = SocketTransport(self.address, self.now_ns, self._access)
            plain = sockets.proxy is not None and not self.address.tls
            prefix = f"http://{self.address.authority}" if plain else ""
            self.encoder = Encoder(self.address.authority, prefix + self.address.prefix, self._access)
            self.encode = self.encoder.completion
        answers = {path: await self.fetch(path) for path in _QUESTIONS}
        self._reachable(answers.values())
        texts = {path: answer.text if answer.status == 200 else None for path, answer in answers.items()}
        models = answers["/v1/models"]
        self.model = self.model or model_of(models.text) or ""
        self.max_model_len = max_model_len_of(models.text)
        self.engine = engine_of(texts)
        seen = evidence_of(texts)
        self.serve = serve.facts(texts, target=self.subject, evidence=seen)
        if not self.model:
            self._nameless(models)
        self.encoder.model = self.model
        if self._access.endpoint == "auto" and self.clock == "wall":
            self.encoder.endpoint = await find_endpoint(self.encoder, self._status)
        self.endpoint = self.encoder.endpoint

    async def _status(self, request: bytes) -> int | None:
        return (await self._fetched(request, self._timeout_s)).status

    def _nameless(self, models: Fetched) -> None:
        status = models.status
        said = f"HTTP {status}" if status else models.problem
        detail = f": {words}" if (words := models.words) else ""
        if status in (200, 404, 405, 501, 503):
            fix = "Give the name: --model NAME (a P/D router does not tell it)."
            fix = f"{advice(status)} Or: {fix[0].lower()}{fix[1:]}" if status == 503 else fix
            raise TargetError(
                f"/v1/models answered {said}{detail}, so the model's name is unknown",
                where=self.address.where, fix=fix,
            )  # fmt: skip
        raise TargetError(f"/v1/models answered {said}{detail}", where=self.address.where, fix=advice(status))

    def _reachable(self, answers: Iterable[Fetched]) -> None:
        problems = [answer.problem for answer in answers if answer.status is None]
        if len(problems) == len(_QUESTIONS):
            raise TargetError(
                problems[0] or "no answer",
                where=self.address.where,
                fix=_TLS_FIX if "certificate" in (problems[0] or "").lower() else advice(None),
            )

    def _add(self, item: dict[str, str] | None) -> None:
        if item is not None and item not in self.serve["evidence"]:
            self.serve["evidence"].append(item)


class _Bare:
    """What a request needs of a target, inside a loop that runs already: nobody is asked who answers."""

    def __init__(self, origin: str) -> None:
        address = parse_target(origin)
        assert isinstance(address, Address)
        access, loop = Access.of_environment(), asyncio.get_running_loop()
        self.now_ns = lambda: round(loop.time() * 1e9)
        self.transport = SocketTransport(address, self.now_ns, access)
        plain = self.transport.proxy is not None and not address.tls
        prefix = f"http://{address.authority}" if plain else ""
        self.encoder = Encoder(address.authority, prefix + address.prefix, access)
        self.encode = self.encoder.completion
        self.prepare = self.transport.prepare
        self.stopping = False

    def observe(self, record: RequestRecord) -> None:
        """Nothing is learned of the server."""

    async def __aenter__(self) -> _Bare:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.transport.close()


async def fetch_url(url: str, *, timeout_s: float = 10.0) -> Fetched:
    """GET one URL outside any target, with the keys, headers and certificates of the environment.

    Never raises for what the network does: `status` is None and `problem` says why.
    """
    parts = urlsplit(url)
    async with _Bare(f"{parts.scheme}://{parts.netloc}") as bare:
        fetch = Fetch(asyncio.get_running_loop().create_future())
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        fetch.handle = bare.transport.open(bare.encoder.get(path), fetch)
        try:
            async with asyncio.timeout(timeout_s):
                return await fetch.future
        except TimeoutError:
            return Fetched(None, {}, b"", f"no answer within {timeout_s:g} s")


async def wave_at(url: str, model: str, requests: Sequence[Request], **options: Any) -> list[RequestRecord]:
    """`run_wave` against a URL, from inside a loop that runs already; `options` are those of `run_wave`."""
    async with _Bare(url) as bare:
        bare.encoder.model = model
        return await run_wave(bare, requests, **options)  # type: ignore[arg-type]


def _twin_cluster(address: TwinAddress, seed: int) -> tuple[Any, Any]:
    twin = load("k3repro.targets", "twin")
    settings = dict(address.settings)
    settings.pop("seed", None)
    return twin.VirtualDriver, twin.Cluster(twin.platform(address.platform).with_overrides(settings), seed)


def open_target(
    target: str,
    *,
    seed: int | None = None,
    model: str | None = None,
    timeout_s: float = _PROBE_TIMEOUT_S,
    access: Access | None = None,
    name: str = "",
    hardware: str = "",
) -> Target:
    """Open ``twin:PLATFORM[?seed=N&setting=value]`` or ``http[s]://host:port[/prefix]`` and ask it who it is.

    `seed` is the twin's (an argument wins over the target string; default 0). `model` overrides `/v1/models`.
    `access`: keys, headers, certificates, endpoint; from the environment unless given.
    `name` (``k3-rank-geometry@h200``) and `hardware` go into the subject of its artifacts (`Target.subject`).

    Raises:
        UsageError: the text is no target, or the twin has no such platform or setting.
        TargetError: nothing answers there, it refuses, or it does not name its model; with its status.
    """
    address = parse_target(target)
    if seed is None:
        seed = _seed(address)
    access = access or Access.of_environment()
    return Target(
        address, seed=seed, model=model, timeout_s=timeout_s, access=access, name=name, hardware=hardware
    )


def _seed(address: Address | TwinAddress) -> int:
    text = address.settings.get("seed", "0") if isinstance(address, TwinAddress) else "0"
    try:
        return int(text)
    except ValueError:
        raise UsageError(
            f"seed is {text!r}, not a whole number", where="target", fix="for example seed=7"
        ) from None
