"""What a conversion lost: figures over blocks, in float64, from the decoded source and the decoded result."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from k3repro.mxfp4 import (
    BLOCK,
    MAGNITUDES,
    Bytes,
    Int4Blocks,
    unpack_nibbles,
)

Doubles = npt.NDArray[np.float64]
Pairs = npt.NDArray[np.bool_]


def significant(value: float, digits: int = 5) -> float:
    """Rounded to significant digits: sums in another order on another machine then seal the same bytes."""
    return 0.0 if value == 0 else float(f"{value:.{digits - 1}e}")


def compare(weights: Doubles, got: Doubles) -> dict[str, float]:
    """Relative RMS error, SQNR in dB, and how much larger the magnitudes became on average."""
    ratio = float(np.linalg.norm(weights - got) / np.linalg.norm(weights))
    return {
        "relative_rms": significant(ratio),
        "sqnr_db": significant(-20 * math.log10(ratio)),
        "bias": significant(float(np.abs(got).sum() / np.abs(weights).sum()) - 1),
    }


def block_errors(
    weights: Doubles, packed: Bytes, result: Int4Blocks, pairs: Pairs, *, truncate: bool = False
) -> Mapping[str, Any]:
    """`compare` for a conversion, with the shares of elements that merged and of blocks left exact.

    weights: what `packed` decodes to. pairs: the `merges` of the conversion.
    """
    got = result.dequantise(truncate=truncate)
    exact = (weights == got).reshape(-1, BLOCK).all(axis=-1)
    return {
        **compare(weights, got),
        "merged": significant(merged_share(packed, pairs)),
        "exact_blocks": significant(float(exact.mean())),
    }


def merges(packed: Bytes, result: Int4Blocks) -> Pairs:
    """[blocks, 7]: magnitude codes k and k + 1 both occur in the block and got the same int4 magnitude."""
    # [32, blocks], so that a reduction over a block runs along whole vectors; bytes, so that they are short
    magnitude = np.ascontiguousarray(unpack_nibbles(packed).reshape(-1, BLOCK).T.astype(np.uint8)) & 7
    code = np.ascontiguousarray(np.abs(result.codes.reshape(-1, BLOCK).astype(np.int8)).T).view(np.uint8)
    above, below = code + np.uint8(1), np.uint8(99) - code  # nought where the magnitude is not there
    most, least = (
        np.stack([((magnitude == k).view(np.uint8) * rank).max(axis=0) for k in range(8)], axis=1).astype(
            np.int8
        )
        for rank in (above, below)
    )
    most, least = most - np.int8(1), np.int8(99) - least
    merged: Pairs = (most[:, :-1] >= least[:, 1:]) & (most[:, :-1] >= 0)
    return merged


def merged_share(packed: Bytes, pairs: Pairs) -> float:
    """Share of elements that can no longer be told from an element of another magnitude in their block."""
    touched = np.zeros((len(pairs), 8), dtype=bool)
    touched[:, :-1] |= pairs
    touched[:, 1:] |= pairs
    magnitude = unpack_nibbles(packed).reshape(-1, BLOCK) & 7
    return float(np.take_along_axis(touched, magnitude.astype(np.int64), axis=1).mean())


def merge_rows(pairs: Pairs) -> list[dict[str, Any]]:
    """Per pair of neighbouring magnitudes: the share of blocks in which both occur and became one."""
    return [
        {"low": float(MAGNITUDES[k]), "high": float(MAGNITUDES[k + 1]), "share": significant(float(share))}
        for k, share in enumerate(pairs.mean(axis=0))
    ]
