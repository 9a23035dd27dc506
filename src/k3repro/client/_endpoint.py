"""Which API a server has, found out by asking: for nothing where its refusals tell, else for one token."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from k3repro.client._access import ENDPOINTS
from k3repro.client._encode import Encoder
from k3repro.client._model import Request

__all__ = ["find_endpoint"]

_NOWHERE = "/v1/no-such-endpoint"
_ABSENT = (404, 501)
Ask = Callable[[bytes], Awaitable[int | None]]


async def find_endpoint(encoder: Encoder, ask: Ask) -> str:
    """The first endpoint this server has; completions where nothing tells. `ask` gives an answer's status.

    A GET, then a POST of an empty document: neither generates anything, and a server that refuses a path
    otherwise than one that nobody has does have it. Where that tells nothing (some answer 404 to a document
    they cannot read), the smallest request of each kind, as a wave would send it.
    """
    nowhere = await ask(encoder.get(_NOWHERE))
    unread = await ask(encoder.post(_NOWHERE, {}))
    for name, path in ENDPOINTS.items():
        if _has(await ask(encoder.get(path)), nowhere):
            return name
        if (status := await ask(encoder.post(path, {}))) != 405 and _has(status, unread):
            return name
    return await _by_request(encoder, ask)


def _has(status: int | None, nowhere: int | None) -> bool:
    refused = status is not None and status >= 400 and status not in _ABSENT
    return refused and status != nowhere


async def _by_request(encoder: Encoder, ask: Ask) -> str:
    """The first endpoint that completes one token; else the first that does not deny being there."""
    chosen, there = encoder.endpoint, ""
    try:
        for name in ENDPOINTS:
            encoder.endpoint = name
            status = await ask(encoder.completion(Request("endpoint", "Hi", 1, ignore_eos=False)))
            if status == 200:
                return name
            there = there or (name if status not in (*_ABSENT, 405) else "")
        return there or "completions"
    finally:
        encoder.endpoint = chosen
