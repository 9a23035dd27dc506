"""Blocks as bit planes: 32 codes of four bits become four 32-bit words, one per bit of the code.

A block of MXFP4 is four little-endian words of eight nibbles. Transposing the 4 x 4 bits at each nibble
position gives words whose bit i belongs to one element, so that one logic instruction treats all 32 elements
of a block and NumPy's vector loops treat several blocks at once. The transposition is its own inverse.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from k3repro.mxfp4._format import Bytes

Words = npt.NDArray[np.uint32]

BLOCKS_AT_ONCE = 16384  # four planes of 64 KB and their temporaries stay in a core's second-level cache

_ODD, _PAIR = np.uint32(0x55555555), np.uint32(0x33333333)
_ONE, _TWO = np.uint32(1), np.uint32(2)


class Planes(NamedTuple):
    """Bits 0, 1, 2 of the magnitude code and the sign bit, one word per block each."""

    b0: Words
    b1: Words
    b2: Words
    sign: Words


def transpose(planes: Planes) -> Planes:
    """Words 0..3 of each block <-> its bit planes."""
    w0, w1 = _swap(planes[0], planes[1], _ONE, _ODD)
    w2, w3 = _swap(planes[2], planes[3], _ONE, _ODD)
    w0, w2 = _swap(w0, w2, _TWO, _PAIR)
    w1, w3 = _swap(w1, w3, _TWO, _PAIR)
    return Planes(w0, w1, w2, w3)


def _swap(a: Words, b: Words, shift: np.uint32, mask: np.uint32) -> tuple[Words, Words]:
    moved = a >> shift
    moved ^= b
    moved &= mask
    swapped = b ^ moved
    moved <<= shift
    moved ^= a
    return moved, swapped


def load(packed: Bytes) -> Planes:
    """Bit planes of packed bytes [blocks, 16] (contiguous)."""
    words = packed.view("<u4")
    return transpose(Planes(*(np.ascontiguousarray(words[:, i]) for i in range(4))))


def store(planes: Planes, out: Words) -> None:
    """Write bit planes as four words a block into `out` [blocks, 4]."""
    for column, word in enumerate(transpose(planes)):
        out[:, column] = word


def double(planes: Planes, where: Words) -> Planes:
    """Planes with each magnitude up to 3 doubled in the blocks whose word of `where` is all ones."""
    b0, b1, b2, sign = planes
    twice0 = (b0 & b1) | (b0 & b2)
    twice1 = b2 | (b0 & ~b1)
    twice2 = b2 | b1
    return Planes(
        b0 ^ ((b0 ^ twice0) & where), b1 ^ ((b1 ^ twice1) & where), b2 ^ ((b2 ^ twice2) & where), sign
    )


def spread(flags: npt.NDArray[np.bool_]) -> Words:
    """All ones where a flag is set, else zero."""
    return np.negative(flags.view(np.uint8).astype(np.uint32))


def normalise(planes: Planes) -> tuple[Planes, npt.NDArray[np.uint8] | None]:
    """Planes doubled until the largest magnitude is 4 or 6, and the number of doublings (None: none)."""
    count: npt.NDArray[np.uint8] | None = None
    for _ in range(3):
        small = (planes.b2 & planes.b1) == 0
        if not small.any():
            return planes, count
        planes = double(planes, spread(small))
        count = small.view(np.uint8).copy() if count is None else count + small
    return planes, count


def with_sign(
    m0: Words, m1: Words, m2: Words, negative: Words, out: Words, minus_eight: Words | None = None
) -> None:
    """Store nibbles 8 + m, or 8 - m where `negative`; magnitude m2 m1 m0, `minus_eight` marks 7 -> -8."""
    o1 = m1 ^ (negative & m0)
    any01 = m0 | m1
    o2 = m2 ^ (negative & any01)
    any01 |= m2
    any01 &= negative
    o0 = m0 if minus_eight is None else m0 & ~(minus_eight & negative)
    store(Planes(o0, o1, o2, ~any01), out)
