"""The fast CPU path of `amax7` and `mse`: whole blocks as bit planes, a few hundred vector instructions.

Everything here equals `requantise_reference` bit for bit; blocks that need its care (all zero, or a scale
byte near either end of the range) are given back to it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from k3repro.errors import InputError
from k3repro.mxfp4 import _planes
from k3repro.mxfp4._bf16 import bf16_bits
from k3repro.mxfp4._fast_mse import mse_chunk
from k3repro.mxfp4._format import Bytes
from k3repro.mxfp4._layouts import pack_uint4b8
from k3repro.mxfp4._planes import BLOCKS_AT_ONCE, Words
from k3repro.mxfp4._rules import RULES, Rule, check_scales, requantise_reference

Bits = npt.NDArray[np.uint16]

_LOWEST, _HIGHEST = 112, 252  # scale bytes whose blocks are far from the 1e-6 floor and from infinity
_AMAX7_PEAK4, _AMAX7_PEAK6 = (int(bf16_bits(np.float32(peak / 7))) for peak in (4.0, 6.0))


def requantise(packed: Bytes, scales: Bytes, rule: Rule = "amax7", *, where: str = "") -> tuple[Words, Bits]:
    """uint4b8 words [..., K/8] and bfloat16 scale bits [..., K/32] of MXFP4 bytes [..., K/2] and [..., K/32].

    Raises:
        InputError: as `requantise_reference`; `where` (tensor and shard) leads the message.
    """
    check_scales(packed, scales, where)
    if rule not in RULES:
        raise InputError(f"no rule {rule!r}", fix=f"Choose one of {', '.join(RULES)}.")
    blocks = np.ascontiguousarray(packed).reshape(-1, 16)
    bytes_ = np.ascontiguousarray(scales).reshape(-1)
    words = np.empty((len(blocks), 4), dtype=np.uint32)
    bits = np.empty(len(blocks), dtype=np.uint16)
    for begin in range(0, len(blocks), BLOCKS_AT_ONCE):
        part = slice(begin, begin + BLOCKS_AT_ONCE)
        _CHUNK.get(rule, _slow_chunk)(blocks[part], bytes_[part], words[part], bits[part], rule, where)
    return words.reshape(*packed.shape[:-1], packed.shape[-1] // 4), bits.reshape(scales.shape)


def _amax7_chunk(packed: Bytes, scales: Bytes, words: Words, bits: Bits, rule: Rule, where: str) -> None:
    planes, doublings = _planes.normalise(_planes.load(packed))
    b0, b1, b2, sign = planes
    both = b1 & b2
    peak6 = (both & b0) != 0
    six = _planes.spread(peak6)
    some, apart, pair = b0 | b1, b0 ^ b1, b0 & b1
    some &= b2
    some ^= b2  # b2 and neither b0 nor b1: code 4 alone
    m2 = b2 ^ (some & six)
    pair ^= some
    pair ^= b1
    pair &= six
    pair ^= b1  # m1: b1, or in a block that peaks at 6 the bit of its own map
    apart ^= b2 & b0
    both |= b0
    apart ^= both
    apart &= six
    apart ^= both  # m0, likewise
    _planes.with_sign(apart, pair, m2, sign, words)
    exponent = scales.astype(np.uint16)
    exponent <<= np.uint16(7)
    exponent += _BASE[peak6.view(np.uint8)]
    if doublings is not None:
        exponent -= doublings.astype(np.uint16) << np.uint16(7)
    bits[:] = exponent
    odd = (scales < _LOWEST) | (scales > _HIGHEST)
    if doublings is not None:
        odd |= ~(planes.b2 & planes.b1).astype(bool)
    _repair(odd, packed, scales, words, bits, rule, where)


_BASE = np.array([_AMAX7_PEAK4, _AMAX7_PEAK6], dtype=np.int32).astype(np.int64) - (127 << 7)
_BASE = (_BASE % 65536).astype(np.uint16)


def _repair(
    odd: npt.NDArray[np.bool_], packed: Bytes, scales: Bytes, words: Words, bits: Bits, rule: Rule, where: str
) -> None:
    """Let the reference convert the blocks in `odd`."""
    index = np.flatnonzero(odd)
    if len(index):
        done = requantise_reference(packed[index], scales[index, None], rule, where=where)
        words[index] = pack_uint4b8(done.codes).view(np.uint32)
        bits[index] = bf16_bits(done.scales[:, 0])


def _slow_chunk(packed: Bytes, scales: Bytes, words: Words, bits: Bits, rule: Rule, where: str) -> None:
    _repair(np.ones(len(packed), dtype=bool), packed, scales, words, bits, rule, where)


def _mse_chunk(packed: Bytes, scales: Bytes, words: Words, bits: Bits, rule: Rule, where: str) -> None:
    empty = mse_chunk(packed, scales, words, bits)
    _repair(empty, packed, scales, words, bits, rule, where)


_CHUNK = {"amax7": _amax7_chunk, "mse": _mse_chunk}
