"""Seeded integer draws: the same on every machine, Python build and CPU."""

from __future__ import annotations

__all__ = ["Jitter", "mix"]

_MASK = (1 << 64) - 1


def mix(value: int) -> int:
    """SplitMix64 finaliser: a well-spread 64-bit integer from any integer (Steele et al. 2014)."""
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


class Jitter:
    """A cyclic table of deviations in parts per million, triangular between -`ppm` and +`ppm`."""

    _SIZE = 1021

    def __init__(self, seed: int, ppm: int) -> None:
        self._table = [self._draw(mix(seed) + index, ppm) for index in range(self._SIZE)] if ppm else [0]
        self._next = 0

    @staticmethod
    def _draw(index: int, ppm: int) -> int:
        word = mix(index)
        return (word & 0xFFFFFFFF) % (ppm + 1) - (word >> 32) % (ppm + 1)

    def apply(self, nanoseconds: int) -> int:
        """`nanoseconds` times one plus the next deviation, rounded down, at least 1."""
        deviation = self._table[self._next]
        self._next = (self._next + 1) % len(self._table)
        return max(1, nanoseconds + nanoseconds * deviation // 1_000_000)
