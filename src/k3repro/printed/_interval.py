"""Exact interval arithmetic over printed numbers: rational ends, infinite where a bound is open."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

__all__ = ["INFINITY", "Span"]

INFINITY = math.inf
Number = Fraction | float  # float only for the infinities


def _times(a: Number, b: Number) -> Number:
    return Fraction(0) if a == 0 or b == 0 else a * b


@dataclass(frozen=True, slots=True)
class Span:
    """A closed interval [low, high]; the ends are exact rationals or infinite."""

    low: Number
    high: Number

    @classmethod
    def point(cls, value: Fraction | int) -> Span:
        return cls(Fraction(value), Fraction(value))

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ValueError(f"an interval needs low <= high, not [{self.low}, {self.high}]")

    def __add__(self, other: Span) -> Span:
        return Span(self.low + other.low, self.high + other.high)

    def __neg__(self) -> Span:
        return Span(-self.high, -self.low)

    def __sub__(self, other: Span) -> Span:
        return self + -other

    def __mul__(self, other: Span) -> Span:
        ends = [_times(a, b) for a in (self.low, self.high) for b in (other.low, other.high)]
        return Span(min(ends), max(ends))

    def __truediv__(self, other: Span) -> Span:
        """Quotient; a divisor that contains zero gives the whole line."""
        if other.low <= 0 <= other.high:
            return Span(-INFINITY, INFINITY)
        inverse = Span(_reciprocal(other.high), _reciprocal(other.low))
        return self * inverse

    def power(self, exponent: int) -> Span:
        result = Span.point(1)
        for _ in range(abs(exponent)):
            result = result * self
        return Span.point(1) / result if exponent < 0 else result

    def apply(self, function: Callable[[Number], Number]) -> Span:
        """The image under a non-decreasing function."""
        return Span(_keep(function, self.low), _keep(function, self.high))

    def intersects(self, other: Span) -> bool:
        return self.low <= other.high and other.low <= self.high

    def inside(self, other: Span) -> bool:
        return other.low <= self.low and self.high <= other.high

    def meet(self, other: Span) -> Span | None:
        """The common part, or None."""
        return Span(max(self.low, other.low), min(self.high, other.high)) if self.intersects(other) else None

    @property
    def finite(self) -> bool:
        return not (math.isinf(self.low) or math.isinf(self.high))

    @property
    def width(self) -> Number:
        return self.high - self.low

    @property
    def relative_width(self) -> float:
        """Width over the magnitude of the middle; infinite around zero or without ends."""
        if not self.finite:
            return INFINITY
        middle = abs(float(self.low) + float(self.high)) / 2
        return 0.0 if self.width == 0 else float(self.width / middle) if middle else INFINITY

    def scaled(self, factor: Fraction) -> Span:
        ends = (self.low * factor, self.high * factor)
        return Span(*ends) if factor >= 0 else Span(ends[1], ends[0])


def _reciprocal(value: Number) -> Number:
    return Fraction(0) if math.isinf(value) else 1 / value


def _keep(function: Callable[[Number], Number], value: Number) -> Number:
    return value if math.isinf(value) else function(value)
