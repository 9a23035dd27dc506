"""The candidates of the `mse` rule as a walk: from scale to scale only a few magnitudes change their code."""

from __future__ import annotations

import numpy as np

from k3repro.mxfp4._assignments import HALVES, assignments, candidates
from k3repro.mxfp4._fast_mse import candidate_table

_HALF = len(assignments()) // 2


def _tables() -> tuple[tuple[float, ...], tuple[float, ...], int]:
    kept = [int(i) for i in candidates()[candidate_table().kept]]
    rank = {index: position for position, index in enumerate(kept)}
    positive = [i for i in kept if i < _HALF]
    codes = np.minimum(assignments().astype(int), 7)
    start = codes[positive[0]]
    first = [float(x) for k in range(1, 8) for x in (start[k] * HALVES[k], start[k] ** 2)]
    walk: list[float] = []
    before = start
    for index in positive:
        now, eight = codes[index], assignments()[index][8:]
        for k in range(1, 8):
            walk += [float((now[k] - before[k]) * HALVES[k]), float(now[k] ** 2 - before[k] ** 2)]
        walk += [rank[index], rank.get(index + _HALF, -1), float(eight[6] == -8), float(eight[7] == -8)]
        before = now
    return tuple(first), tuple(walk), len(positive)


# FIRST_COUNTS: weights of the seven counts in 2A and B of the first candidate (pairs).
# WALK: per step 7 pairs of changes, then the rank with a positive and with a negative scale (-1: no candidate
# of its own), then whether values of magnitude 4 and 6 reach code -8.
FIRST_COUNTS, WALK, STEPS = _tables()
