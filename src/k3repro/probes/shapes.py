"""Request shapes as text: ``500/200``, ``32K/512@32``, ``long-context:32K/512@32``."""

from __future__ import annotations

from dataclasses import dataclass

from k3repro.capacity import KNEE_GAIN, knee
from k3repro.errors import UsageError
from k3repro.units import parse_tokens

__all__ = ["KNEE_GAIN", "Shape", "knee", "parse_shape"]


@dataclass(frozen=True, slots=True)
class Shape:
    """Input and output tokens of a request, how many in flight (0: not said), and a name."""

    name: str
    isl: int
    osl: int
    concurrency: int = 0


def parse_shape(text: str) -> Shape:
    """A shape from ``[NAME:]ISL/OSL[@CONCURRENCY]``.

    Raises:
        UsageError: not of that form.
    """
    name, _, rest = text.rpartition(":")
    sizes, _, concurrency = rest.partition("@")
    isl, slash, osl = sizes.partition("/")
    if not slash or (concurrency and not concurrency.isdigit()):
        raise UsageError(f"{text!r} is not a shape", fix="Write it like 500/200 or long-context:32K/512@32.")
    return Shape(name or sizes, parse_tokens(isl), parse_tokens(osl), int(concurrency or 0))
