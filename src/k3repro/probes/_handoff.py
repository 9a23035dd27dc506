"""The hand-off between a prefill and a decode engine: two legs by hand, and the engine's byte counters.

The swap test sends prompt X to prefill and tells decode prompt Y (same length, same last token) with X's
hand-off. What comes back must be X's answer: then everything that decode knows of the prompt crossed.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from k3repro.client import Outcome, Request, RequestRecord
from k3repro.errors import TargetError
from k3repro.probes._sequences import Keep, ask, document_of
from k3repro.serve import parse_metrics

_ASKED = {
    "do_remote_decode": True, "do_remote_prefill": False, "remote_engine_id": None, "remote_block_ids": None,
    "remote_host": None, "remote_port": None,
}  # fmt: skip
_CONNECTORS = ("vllm:nixl", "vllm:moriio")
_SETTLE_S, _TRIES = 0.25, 60


@dataclass(frozen=True, slots=True)
class Counters:
    """What the decode engine counted since its start; None where it does not report it."""

    transfers: int | None
    bytes: int | None
    failed: int | None
    descriptors: int | None = None

    def since(self, before: Counters) -> Counters:
        """The difference to an earlier reading."""
        return Counters(
            _less(self.transfers, before.transfers),
            _less(self.bytes, before.bytes),
            _less(self.failed, before.failed),
            _less(self.descriptors, before.descriptors),
        )


def _less(now: int | None, before: int | None) -> int | None:
    return None if now is None else now - (before or 0)


def counters_of(text: str) -> Counters:
    """The transfer counters in metrics text; histograms of bytes give count and sum, both integers."""
    metrics = parse_metrics(text)

    def total(suffix: str) -> int | None:
        found = [value for name in _CONNECTORS if (value := metrics.total(f"{name}_{suffix}")) is not None]
        return round(sum(found)) if found else None

    return Counters(
        total("bytes_transferred_count"), total("bytes_transferred_sum"), total("num_failed_transfers"),
        total("num_descriptors_sum"),
    )  # fmt: skip


async def read_counters(target: Any, at_least: int | None = None) -> Counters:
    """Read them; with `at_least`, wait for so many transfers: the engine publishes them late."""
    for attempt in range(_TRIES):
        found = counters_of((await target.fetch("/metrics")).text)
        if (
            at_least is None
            or found.transfers is None
            or found.transfers >= at_least
            or attempt == _TRIES - 1
        ):
            break
        await asyncio.sleep(_SETTLE_S)
    return found


async def tokenize(target: Any, prompt: str) -> list[int]:
    """Token ids of a prompt, as the engine itself counts them.

    Raises:
        TargetError: the engine has no /tokenize.
    """
    answer = await target.fetch("/tokenize", {"model": target.model, "prompt": prompt})
    try:
        tokens = json.loads(answer.text)["tokens"]
        return [int(token) for token in tokens]
    except (ValueError, KeyError, TypeError):
        fix = "The swap test needs token ids; leave --prefill and --decode out on this engine."
        raise TargetError(f"/tokenize answered {answer.status}", where=target.subject, fix=fix) from None


def mirrored(tokens: Sequence[int]) -> list[int]:
    """Another prompt of the same length with the same last token: everything before it reversed."""
    return [*reversed(tokens[:-1]), tokens[-1]]


def two_legs(
    prefill: Any, decode: Any, request: Request, told: Sequence[int], keep: Keep, timeout_s: float, wave: str
) -> RequestRecord:
    """Prefill gets `request`, decode is told the token ids `told` with that hand-off."""
    document = document_of(prefill, request) | {"max_tokens": 1, "kv_transfer_params": _ASKED}
    first = prefill.run(_post, document, timeout_s)
    params = first.get("kv_transfer_params")
    leg = Request(request.request_id, list(told), request.max_tokens)
    document = document_of(decode, leg, kv_transfer_params=params)
    record: RequestRecord = decode.run(ask, leg, document, keep, timeout_s, wave)
    if not params and record.outcome is Outcome.COMPLETED:
        record.outcome, record.error = (
            Outcome.FAILED_IN_STREAM,
            "prefill handed nothing over (no kv_transfer_params)",
        )
    return record


async def _post(target: Any, document: dict[str, Any], timeout_s: float) -> dict[str, Any]:
    answer = await target.fetch("/v1/completions", document, timeout_s=timeout_s)
    try:
        body = json.loads(answer.text)
    except ValueError:
        body = {}
    return body if isinstance(body, dict) else {}


class _Sender:
    """Stands where the target was and sends waves another way."""

    def __init__(self, target: Any, send: Callable[..., list[RequestRecord]]) -> None:
        self._target = target
        self._send = send

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)

    def run(self, function: Any, *arguments: Any, **options: Any) -> Any:
        """A wave goes through the sender; anything else to the target."""
        if "wave" not in options:
            return self._target.run(function, *arguments, **options)
        kept = {name: options.get(name) for name in ("concurrency", "timeout_s", "wave", "on_record")}
        return self._send(*arguments, **kept)


@contextmanager
def sending(session: Any, send: Callable[..., list[RequestRecord]]) -> Iterator[None]:
    """Send the waves of `session` through `send` until the block ends."""
    target, session.target = session.target, _Sender(session.target, send)
    try:
        yield
    finally:
        session.target = target
