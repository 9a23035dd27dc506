"""Units of printed numbers: a factor to the base unit and a dimension that formulas must respect.

GB and GiB share a dimension and differ by their factor; tokens and tokens per GPU differ in dimension.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from k3repro.errors import InputError

__all__ = ["DIMENSIONLESS", "Unit", "combine", "counted", "parse_unit"]

_BASE: dict[str, tuple[str, Fraction]] = {
    "1": ("", Fraction(1)), "x": ("", Fraction(1)), "%": ("", Fraction(1, 100)), "B": ("byte", Fraction(1)),
    "KB": ("byte", Fraction(10**3)), "PB": ("byte", Fraction(10**15)), "bit": ("byte", Fraction(1, 8)),
    "Gbit": ("byte", Fraction(10**9, 8)), "Mbit": ("byte", Fraction(10**6, 8)),
    "Tbit": ("byte", Fraction(10**12, 8)), "GB": ("byte", Fraction(10**9)), "MB": ("byte", Fraction(10**6)),
    "TB": ("byte", Fraction(10**12)), "KiB": ("byte", Fraction(2**10)), "MiB": ("byte", Fraction(2**20)),
    "GiB": ("byte", Fraction(2**30)), "TiB": ("byte", Fraction(2**40)), "FLOP": ("flop", Fraction(1)),
    "GFLOP": ("flop", Fraction(10**9)), "TFLOP": ("flop", Fraction(10**12)),
    "PFLOP": ("flop", Fraction(10**15)), "EFLOP": ("flop", Fraction(10**18)), "$": ("dollar", Fraction(1)),
    "W": ("watt", Fraction(1)), "kW": ("watt", Fraction(1000)), "MW": ("watt", Fraction(10**6)),
    "kWh": ("joule", Fraction(3600000)), "J": ("joule", Fraction(1)), "Mtoken": ("token", Fraction(10**6)),
    "us": ("second", Fraction(1, 10**6)), "ns": ("second", Fraction(1, 10**9)),
    "day": ("second", Fraction(86400)), "point": ("point", Fraction(1)), "s": ("second", Fraction(1)),
    "ms": ("second", Fraction(1, 1000)), "min": ("second", Fraction(60)), "h": ("second", Fraction(3600)),
    "thousand": ("", Fraction(1000)), "request": ("", Fraction(1)), "sequence": ("", Fraction(1)),
}  # fmt: skip
_NOUNS = [
    "token",
    "GPU",
    "node",
    "pool",
    "lane",
    "layer",
    "expert",
    "session",
    "turn",
    "platform",
    "axis",
    "cell",
    "shard",
    "defect",
    "run",
    "profile",
    "word",
    "element",
    "parameter",
    "step",
    "model",
    "family",
    "user",
    "restart",
    "depth",
    "rank",
    "constraint",
    "wave",
    "copy",
    "time",
    "role",
    "window",
    "metric",
    "percentile",
    "class",
    "input",
    "rung",
    "prediction",
    "form",
    "regime",
    "trial",
    "rail",
    "bug",
    "post",
    "act",
    "lesson",
    "limit",
    "date",
    "seed",
]


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit: its printed name, its factor to base units and its dimension (sorted base, exponent pairs)."""

    name: str
    factor: Fraction
    dimension: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        return self.name

    @property
    def dimension_text(self) -> str:
        """The dimension as text: byte/token."""
        over = [base for base, power in self.dimension for _ in range(max(power, 0))]
        under = [base for base, power in self.dimension for _ in range(max(-power, 0))]
        return ("·".join(over) or "1") + "".join(f"/{base}" for base in under)


DIMENSIONLESS = Unit("", Fraction(1), ())


def _base(name: str) -> tuple[str, Fraction] | None:
    if name in _BASE:
        return _BASE[name]
    for noun in (name, name.removesuffix("es"), name.removesuffix("s")):
        if noun in _BASE:
            return _BASE[noun]
        if noun in _NOUNS:
            return noun, Fraction(1)
    return None


@lru_cache(maxsize=512)
def parse_unit(text: str) -> Unit:
    """A unit expression: ``GiB``, ``tokens/s``, ``B/token``, ``ms/token``, ``%``; empty is a plain number.

    Raises:
        InputError: a name that is not in the table.
    """
    factor, powers = Fraction(1), dict[str, int]()
    for position, part in enumerate(filter(None, re.split(r"(/|\*|·)", text))):
        if position % 2:
            continue
        sign = -1 if position and re.split(r"(/|\*|·)", text)[position - 1] == "/" else 1
        base = _base(part.strip())
        if base is None:
            raise InputError(
                f"{text!r} is not a unit of the table",
                fix="Known: GiB, GB, s, ms, %, x and nouns such as token.",
            )
        factor *= base[1] ** sign
        if base[0]:
            powers[base[0]] = powers.get(base[0], 0) + sign
    dimension = tuple(sorted((name, power) for name, power in powers.items() if power))
    return Unit(text, factor, dimension)


_IRREGULAR = {"axis": "axes", "family": "families", "class": "classes", "thousand": "thousand"}


def counted(printed: str, unit: Unit) -> str:
    """A number with its unit as a reader expects it: `24 layers`, `1 token`, `74 ms/token`, `28%`."""
    head, slash, tail = unit.name.partition("/")
    if head in ("%", "x"):
        return printed if printed.endswith(head) else f"{printed} {unit.name}"
    if head in _NOUNS and printed != "1":
        head = _IRREGULAR.get(head, f"{head}s")
    return f"{printed} {head}{slash}{tail}".strip()


def combine(
    a: tuple[tuple[str, int], ...], b: tuple[tuple[str, int], ...], sign: int
) -> tuple[tuple[str, int], ...]:
    """The dimension, (unit, power) pairs, of a product (sign 1) or quotient (sign -1)."""
    powers = dict(a)
    for name, power in b:
        powers[name] = powers.get(name, 0) + sign * power
    return tuple(sorted((name, power) for name, power in powers.items() if power))
