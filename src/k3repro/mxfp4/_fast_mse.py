"""The `mse` rule on bit planes: counts by popcount, all candidates by two matrix products, then a maximum."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from k3repro.mxfp4 import _planes
from k3repro.mxfp4._assignments import HALVES, assignments, candidates
from k3repro.mxfp4._bf16 import bf16_bits
from k3repro.mxfp4._format import Bytes
from k3repro.mxfp4._planes import Planes, Words
from k3repro.mxfp4._rules import stored_scales

_PIECE = 2048  # two score matrices of 30 rows stay in cache
_ONE = np.uint32(1)


class _Table(NamedTuple):
    """Per candidate: weights of the nine counts in 2A and in B, nibble map and sign as bits, rank."""

    cross: npt.NDArray[np.float32]
    square: npt.NDArray[np.float32]
    maps: Words
    rank: npt.NDArray[np.uint8]
    kept: npt.NDArray[np.int64]


# counts of the magnitude codes 1..7 in a block, then of the negative elements with code 6 or 7 (values 4, 6):
# they alone can become -8 where their mirror image becomes +7
_EIGHTS = (6, 7)


@cache
def candidate_table() -> _Table:
    """Candidates that differ for some block, in the order in which equals are decided."""
    chosen = assignments()[candidates()].astype(np.int64)
    halves = np.array([*HALVES, *(-h for h in HALVES)], dtype=np.int64)
    rows: dict[tuple[int, ...], int] = {}
    for index, (cross, square) in enumerate(zip(chosen * halves, chosen * chosen, strict=True)):
        # +s and -s score alike when no code is -8: the first stands for both
        rows.setdefault((*_features(np.abs(cross)), *_features(square)), index)
    kept = np.array(list(rows.values()), dtype=np.int64)
    cross = np.array([_features(np.abs(row)) for row in (chosen * halves)[kept]], dtype=np.float32)
    square = np.array([_features(row) for row in (chosen * chosen)[kept]], dtype=np.float32)
    maps = np.array([_bits(row) for row in chosen[kept]], dtype=np.uint32)
    rank = np.arange(len(kept), 0, -1, dtype=np.uint8)[:, None]
    return _Table(cross, square, maps, rank, kept)


def _features(per_code: npt.NDArray[np.int64]) -> tuple[int, ...]:
    extra = per_code[8:] - per_code[:8]
    assert not extra[[k for k in range(8) if k not in _EIGHTS]].any()
    return (*(int(x) for x in per_code[1:8]), *(int(extra[k]) for k in _EIGHTS))


def _bits(row: npt.NDArray[np.int64]) -> int:
    """Three bits for each magnitude code 1..7; bits 21, 22: codes 6, 7 reach -8; 23: negative scale."""
    negative = row[1:8].sum() < 0
    magnitude = [min(abs(int(q)), 7) for q in row[1:8]]
    word = sum(m << (3 * i) for i, m in enumerate(magnitude))
    for position, k in enumerate(_EIGHTS):
        word |= int(-8 in (row[k], row[k + 8])) << (21 + position)
    return word | int(negative) << 23


def mse_chunk(
    packed: Bytes, scales: Bytes, words: Words, bits: npt.NDArray[np.uint16]
) -> npt.NDArray[np.bool_]:
    """Convert blocks [n, 16], scale bytes [n] into `words` [n, 4], `bits` [n]; which blocks are all zero?"""
    planes, doublings = _planes.normalise(_planes.load(packed))
    empty: npt.NDArray[np.bool_] = (planes.b2 & planes.b1) == 0
    terms = _minterms(planes)
    counts = [np.bitwise_count(term) for term in terms[1:]]
    counts += [np.bitwise_count(terms[k] & planes.sign) for k in _EIGHTS]
    multiplier, maps = _choose(counts)
    if doublings is not None:
        multiplier = np.ldexp(multiplier, -doublings.astype(np.int32))
    bits[:] = bf16_bits(stored_scales(multiplier, scales))
    _apply(terms, planes.sign, maps, words)
    return empty


def _minterms(planes: Planes) -> list[Words]:
    """Word k: which elements have magnitude code k, for k = 1..7 (entry 0 is not used)."""
    b0, b1, b2, _ = planes
    n0, n1, n2 = ~b0, ~b1, ~b2
    low = [n0 & n1, b0 & n1, n0 & b1, b0 & b1]
    return [low[0], low[1] & n2, low[2] & n2, low[3] & n2, *(term & b2 for term in low)]


def _choose(counts: list[npt.NDArray[np.uint8]]) -> tuple[npt.NDArray[np.float64], Words]:
    """Multiplier (A / B, signed) and nibble map of the best candidate of each block."""
    table = candidate_table()
    features = np.array(counts, dtype=np.float32)
    n = features.shape[1]
    multiplier = np.empty(n, dtype=np.float64)
    maps = np.empty(n, dtype=np.uint32)
    for begin in range(0, n, _PIECE):
        part = slice(begin, begin + _PIECE)
        piece = np.ascontiguousarray(features[:, part])
        a, b = table.cross @ piece, table.square @ piece
        np.maximum(b, 1, out=b)
        score = a * a
        score /= b
        best = (len(a) - (table.rank * (score == score.max(axis=0)).view(np.uint8)).max(axis=0)).astype(
            np.intp
        )
        position = best * a.shape[1] + np.arange(a.shape[1])
        maps[part] = table.maps[best]
        multiplier[part] = a.ravel()[position].astype(np.float64) / (2.0 * b.ravel()[position])
    np.negative(multiplier, out=multiplier, where=(maps >> np.uint32(23)).astype(bool))
    return multiplier, maps


def _flag(maps: Words, bit: int) -> Words:
    flag = maps >> np.uint32(bit)
    flag &= _ONE
    np.negative(flag, out=flag)
    return flag


def _apply(terms: list[Words], sign: Words, maps: Words, words: Words) -> None:
    magnitude = []
    for j in range(3):
        plane = terms[1] & _flag(maps, j)
        for k in range(2, 8):
            plane |= terms[k] & _flag(maps, 3 * (k - 1) + j)
        magnitude.append(plane)
    eights = (terms[6] & _flag(maps, 21)) | (terms[7] & _flag(maps, 22))
    negative = sign ^ _flag(maps, 23)
    _planes.with_sign(magnitude[0], magnitude[1], magnitude[2], negative, words, eights)
