"""What an HTTP status of a serving endpoint means to somebody who measures it, and what to do about it."""

from __future__ import annotations

__all__ = ["advice"]

_ADVICE = {
    400: "The server refuses the request; its words say why.",
    401: "Set $K3REPRO_API_KEY (sent as a bearer token), or $K3REPRO_HEADERS ('Name: value', also --header).",
    403: "The key is not allowed to do this, or a proxy refuses: $K3REPRO_API_KEY, $K3REPRO_HEADERS.",
    404: "Check the URL's prefix, --model against /v1/models, the API (--endpoint, $K3REPRO_ENDPOINT).",
    405: "This path takes no POST: check the URL's prefix and the API (--endpoint, $K3REPRO_ENDPOINT).",
    413: "The request is too large for the server or a proxy before it: ask for shorter prompts.",
    422: "The server refuses the request; its words say why. Another API: --endpoint, $K3REPRO_ENDPOINT.",
    429: "The server limits the rate: lower --concurrency or --rate, or have the limit raised.",
    500: "The server failed: read its log. A router: ask its engines directly.",
    502: "What stands before the server gets no answer from it: is the engine up?",
    503: "It is loading a model, or has no engine: wait until /health answers 200, then run this again.",
    504: "What stands before the server gave up waiting: raise its timeout, or lower --concurrency.",
}


def advice(status: int | None) -> str:
    """One sentence for an HTTP status number: the option or place to look; None: no answer at all."""
    if status is None:
        return "Is the server up, and is this the address of its router? curl it to see."
    return _ADVICE.get(status, "Read the server's log; curl the same path to see its answer.")
