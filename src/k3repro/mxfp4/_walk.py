"""The candidates of the `mse` rule as a walk: from scale to scale only a few magnitudes change their code.

Twenty steps stand for thirty candidates, because a block decides the scale's sign before the walk. A scale of
one sign lets the negative elements of magnitude 6 (4, where no 6 is) reach code -8 instead of 7, of the other
sign the positive ones. At a scale s for which v / s rounds to 8, an element that reaches -8 saves
(v - 7 s)^2 - (v - 8 s)^2 = s (2 v - 15 s) >= 0, so the sign with more such elements is never worse; among
equals the positive scale stands. Blocks with a 6 need no scale at which 4 reaches -8 (tests prove it), so one
count decides. Every step thereby has nine counts: seven magnitudes, then the 4s and the 6s that can reach -8.
"""

from __future__ import annotations

import numpy as np

from k3repro.mxfp4._assignments import assignments, candidates
from k3repro.mxfp4._fast_mse import candidate_table

_HALF = len(assignments()) // 2
COUNTS = 9


def _tables() -> tuple[tuple[float, ...], tuple[float, ...], tuple[int, ...]]:
    table = candidate_table()
    positive = candidates()[table.kept] < _HALF
    pairs = np.stack([table.cross[positive], table.square[positive]], axis=-1)
    changes = np.diff(pairs, axis=0, prepend=pairs[:1])
    return (
        tuple(float(x) for x in pairs[0].ravel()),
        tuple(float(x) for x in changes.ravel()),
        tuple(int(word) for word in table.maps[positive]),
    )


# FIRST_COUNTS: weights of the nine counts in 2A and B of the first candidate (pairs).
# WALK: per step nine pairs of changes. MAPS: the nibble maps of the steps, positive scales.
FIRST_COUNTS, WALK, MAPS = _tables()
STEPS = len(MAPS)
