"""Laws about one pool and one request: the pool law as published, the footprint law, the slot limit."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from k3repro.capacity._caches import cache_layers
from k3repro.capacity._engine import Engine
from k3repro.capacity._law import Law
from k3repro.capacity._line import LineFit, fit_line
from k3repro.errors import InputError
from k3repro.spec import Model

PUBLISHED_TOKEN_BYTES = {"kimi-k3": 14_098}
"""Bytes per token of the published pool law (publication 2026-10-08, capacity model section)."""


def token_bytes(model: Model, engine: Engine) -> int:
    """Bytes a token adds on one rank, first principles: growing caches of all layers, no state."""
    return sum(cache.size for cache in cache_layers(model, engine) if cache.kind == "full")


def state_bytes(model: Model, engine: Engine) -> int:
    """Bytes of recurrent state a request holds on one rank, before any padding."""
    return sum(cache.size for cache in cache_layers(model, engine) if cache.kind == "state")


def pool_law(model: Model, engine: Engine) -> Law:
    """N = floor(pool x DP / (bytes per token x context)), as the publication states it.

    The published constant where there is one, first principles elsewhere. It knows neither state nor blocks.

    Raises:
        InputError: a model that keeps nothing per token.
    """
    per_token = PUBLISHED_TOKEN_BYTES.get(model.name) if engine.kv_width == 1 else None
    source = "published constant" if per_token else "first principles: growing caches of all layers"
    per_token = per_token or token_bytes(model, engine)
    if not per_token:
        raise InputError(f"{model.name} keeps nothing per token, so the pool law says nothing")
    tree = ["floor", ["/", ["*", ["var", "pool"], engine.dp], ["*", per_token, ["var", "context"]]]]
    return Law("pool law", tree, "requests", inputs={"bytes_per_token": per_token, "source": source})


def slot_limit(max_num_seqs: int, dp: int) -> int:
    """In-flight places of a pool: max_num_seqs on each DP rank.

    Raises:
        InputError: either is below one.
    """
    if max_num_seqs < 1 or dp < 1:
        raise InputError("max_num_seqs and DP are at least 1")
    return max_num_seqs * dp


@dataclass(frozen=True, slots=True)
class Footprint:
    """The footprint law: bytes of a request = a + b * L, fitted from several points."""

    fit: LineFit

    @property
    def fixed_bytes(self) -> float:
        """a: what a request pins whatever its length."""
        return self.fit.intercept

    @property
    def bytes_per_token(self) -> float:
        """b: what each token adds."""
        return self.fit.slope

    def law(self, dp: int, **inputs: object) -> Law:
        """N_max by footprint, in ``context`` and ``pool``, calibrated between the outer points."""
        per_request = ["+", self.fixed_bytes, ["*", self.bytes_per_token, ["var", "context"]]]
        tree = ["*", dp, ["floor", ["/", ["var", "pool"], per_request]]]
        low, high = self.fit.x_range
        error = {"kind": "least squares", "n": self.fit.n, "r2": self.fit.r2}
        return Law("footprint law", tree, "requests", inputs, {"context": (low, high)}, error)


def fit_footprint(points: Iterable[tuple[float, float]], *, confidence: float = 0.95) -> Footprint:
    """Fit bytes per request to (context in tokens, bytes).

    Raises:
        InputError: fewer than two contexts, or a slope that is not positive.
    """
    fit = fit_line(points, confidence=confidence)
    if not fit.slope > 0 or not math.isfinite(fit.intercept):
        raise InputError(
            "requests do not grow with context in these points", fix="Measure at least two contexts."
        )
    return Footprint(fit)
