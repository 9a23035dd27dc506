"""What a parameter of any probe may be, by its type and its name: refused before anything is sent."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from k3repro.errors import UsageError
from k3repro.units import thousands

_MOST_TOKENS, _MOST_COUNT, _MOST_BYTES = 100_000_000, 100_000, 10**15
TOKENS = frozenset(
    {"isl", "osl", "context", "sweep_context", "max_tokens", "max_context", "block_tokens", "prefix_tokens"}
)
_MAY_BE_ZERO_S = frozenset({"warmup_s", "drain_s", "ramp_s"})
_SHARES = frozenset({"depth", "sweep_depth", "max_rate"})


def check_bounds(parameters: Any) -> None:
    """Refuse numbers that no probe can mean: none where one is needed, negative, not finite, too large.

    Zero stands where it is the default ("not known", "as the serve says") and nowhere else.

    Raises:
        UsageError: which option, what it was, and what it may be.
    """
    for field in dataclasses.fields(parameters):
        value = getattr(parameters, field.name)
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, (int, float)) and not isinstance(item, bool):
                low, high = _bounds(field.name, isinstance(item, float), field.default)
                _require(field.name, item, low, high)


def _bounds(name: str, real: bool, default: Any) -> tuple[float, float]:
    if name in _SHARES:
        return 0.0, 1.0
    if name.endswith("_s"):
        return (0.0 if name in _MAY_BE_ZERO_S else 1e-3), 1e7
    if real:
        return 0.0, 1e6
    high = _MOST_TOKENS if name in TOKENS else _MOST_BYTES if name.endswith("_bytes") else _MOST_COUNT
    return (0 if default == 0 else 1), high


def _require(name: str, value: float, low: float, high: float) -> None:
    if math.isfinite(value) and low <= value <= high:
        return
    shown = f"{value:g}" if isinstance(value, float) else str(value)
    option = f"--{name.replace('_', '-')}"
    raise UsageError(
        f"{shown} is out of bounds", where=option, fix=f"Give {low:g} to {thousands(int(high))}."
    )
