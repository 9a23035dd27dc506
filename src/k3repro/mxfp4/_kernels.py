"""The conversion as Triton kernels: one thread holds a block, bit planes, no lookup of codes.

Three-input logic instructions (LOP3 on NVIDIA, and what gfx942 offers in its place) make bit planes cheaper
than byte permutes: transposing four words takes about twenty instructions, each output bit two or three more.
Only population count and reciprocal are named per vendor. A block that needs the reference (all zero, or a
scale byte outside 112..252) gets the scale NaN, which no good block has; `kernels.mend` repairs it.
"""
# mypy: ignore-errors
# ruff: noqa: RET505 (Triton needs the branches of a constexpr spelled out)

from __future__ import annotations

import triton
import triton.language as tl

from k3repro.mxfp4._walk import FIRST_COUNTS, STEPS, WALK

_FIRST: tl.constexpr = tl.constexpr(FIRST_COUNTS)
_STEPS: tl.constexpr = tl.constexpr(STEPS)
_WALK: tl.constexpr = tl.constexpr(WALK)


@triton.jit
def _swap(a, b, SHIFT: tl.constexpr, MASK: tl.constexpr):
    moved = ((a >> SHIFT) ^ b) & MASK
    return a ^ (moved << SHIFT), b ^ moved


@triton.jit
def _transpose(w0, w1, w2, w3):
    w0, w1 = _swap(w0, w1, 1, 0x55555555)
    w2, w3 = _swap(w2, w3, 1, 0x55555555)
    w0, w2 = _swap(w0, w2, 2, 0x33333333)
    w1, w3 = _swap(w1, w3, 2, 0x33333333)
    return w0, w1, w2, w3


@triton.jit
def _load(packed, row, live, BLOCKS: tl.constexpr):
    words = tl.load(packed + row[:, None] * 4 + tl.arange(0, 4)[None, :], mask=live[:, None], other=0)
    even, odd = tl.split(tl.reshape(words.to(tl.uint32, bitcast=True), [BLOCKS, 2, 2]))
    w0, w2 = tl.split(even)
    w1, w3 = tl.split(odd)
    return _transpose(w0, w1, w2, w3)


@triton.jit
def _store(out, row, live, m0, m1, m2, negative, eights, BLOCKS: tl.constexpr):
    some = m0 | m1
    w0, w1, w2, w3 = _transpose(
        m0 & ~(eights & negative), m1 ^ (negative & m0), m2 ^ (negative & some), ~(negative & (some | m2))
    )
    words = tl.reshape(tl.join(tl.join(w0, w2), tl.join(w1, w3)), [BLOCKS, 4])
    where = row[:, None] * 4 + tl.arange(0, 4)[None, :]
    tl.store(out + where, words.to(tl.int32, bitcast=True), mask=live[:, None])


@triton.jit
def _normalise(b0, b1, b2):
    doublings = tl.zeros_like(b0).to(tl.int32)
    for _ in tl.static_range(3):
        small = (b1 & b2) == 0
        n0 = b0 & (b1 | b2)
        n1 = b2 | (b0 & ~b1)
        n2 = b1 | b2
        b0 = tl.where(small, n0, b0)
        b1 = tl.where(small, n1, b1)
        b2 = tl.where(small, n2, b2)
        doublings += small.to(tl.int32)
    return b0, b1, b2, doublings


@triton.jit
def amax7(
    packed, scales, words, bits, blocks, PEAK4: tl.constexpr, PEAK6: tl.constexpr, BLOCKS: tl.constexpr
):
    """Blocks [n, 4] int32 and scale bytes [n] -> uint4b8 words [n, 4] and bfloat16 bits [n]."""
    row = tl.program_id(0) * BLOCKS + tl.arange(0, BLOCKS)
    live = row < blocks
    b0, b1, b2, sign = _load(packed, row, live, BLOCKS)
    scale = tl.load(scales + row, mask=live, other=127).to(tl.int32)
    b0, b1, b2, doublings = _normalise(b0, b1, b2)
    both = b1 & b2
    peak6 = (both & b0) != 0
    m0 = tl.where(peak6, (b0 ^ b1) ^ (b2 & b0), b0 | both)
    m1 = tl.where(peak6, (b0 & b1) ^ (b2 & ~(b0 | b1)), b1)
    m2 = tl.where(peak6, b2 & (b0 | b1), b2)
    _store(words, row, live, m0, m1, m2, sign, tl.zeros_like(sign), BLOCKS)
    exponent = ((scale - doublings - 127) << 7) + tl.where(peak6, PEAK6, PEAK4)
    odd = (scale < 112) | (scale > 252) | (both == 0)
    tl.store(bits + row, tl.where(odd, 0x7FC0, exponent).to(tl.int16), mask=live)


@triton.jit
def _popcount(x, TARGET: tl.constexpr):
    if TARGET == "cuda":
        return tl.inline_asm_elementwise(
            "popc.b32 $0, $1;", "=r,r", [x], dtype=tl.int32, is_pure=True, pack=1
        )
    elif TARGET == "hip":
        return tl.inline_asm_elementwise(
            "v_bcnt_u32_b32 $0, $1, 0", "=v,v", [x], dtype=tl.int32, is_pure=True, pack=1
        )
    else:
        x = x - ((x >> 1) & 0x55555555)
        x = (x & 0x33333333) + ((x >> 2) & 0x33333333)
        x = (x + (x >> 4)) & 0x0F0F0F0F
        return ((x * 0x01010101) >> 24).to(tl.int32)


@triton.jit
def _divide(a, b, TARGET: tl.constexpr):
    """a / b rounded correctly for whole a < 2**24, b < 2**12: such a quotient is no tie nor close to one."""
    if TARGET == "cuda":
        r = tl.inline_asm_elementwise(
            "rcp.approx.ftz.f32 $0, $1;", "=f,f", [b], dtype=tl.float32, is_pure=True, pack=1
        )
    elif TARGET == "hip":
        r = tl.inline_asm_elementwise("v_rcp_f32 $0, $1", "=v,v", [b], dtype=tl.float32, is_pure=True, pack=1)
    else:
        r = 1.0 / b
    q = a * r
    return tl.fma(r, tl.fma(-b, q, a), q)


@triton.jit
def _better(best, sums, rank, a, b, RANK: tl.constexpr, TARGET: tl.constexpr):
    score = _divide(a * a, b, TARGET)
    wins = score > best
    # 2A <= 3072 and B <= 2048: both fit one float32 exactly, one select instead of two
    return tl.where(wins, score, best), tl.where(wins, tl.fma(a, 4096.0, b), sums), tl.where(wins, RANK, rank)


@triton.jit
def _with_eights(a, b, fours, sixes, WITH4: tl.constexpr, WITH6: tl.constexpr):
    """2A and B when `fours` elements of magnitude 4 and `sixes` of 6 take code 8 instead of 7."""
    if WITH4 != 0:
        a += 8.0 * fours
        b += 15.0 * fours
    if WITH6 != 0:
        a += 12.0 * sixes
        b += 15.0 * sixes
    return a, b


@triton.jit
def _flag(word, BIT: tl.constexpr):
    return ((word << (31 - BIT)).to(tl.int32, bitcast=True) >> 31).to(tl.uint32, bitcast=True)


@triton.jit
def _pick(term, word, FIRST: tl.constexpr, plane):
    return plane | (term & _flag(word, FIRST))


@triton.jit
def mse(packed, scales, words, bits, maps, blocks, TARGET: tl.constexpr, BLOCKS: tl.constexpr):
    """As `amax7`, with the best scale of either sign; `maps`: the nibble maps of the candidates, uint32."""
    row = tl.program_id(0) * BLOCKS + tl.arange(0, BLOCKS)
    live = row < blocks
    b0, b1, b2, sign = _load(packed, row, live, BLOCKS)
    scale = tl.load(scales + row, mask=live, other=127).to(tl.int32)
    b0, b1, b2, doublings = _normalise(b0, b1, b2)
    terms = (
        b0 & ~b1 & ~b2, ~b0 & b1 & ~b2, b0 & b1 & ~b2,
        ~b0 & ~b1 & b2, b0 & ~b1 & b2, ~b0 & b1 & b2, b0 & b1 & b2,
    )  # fmt: skip
    counts = (
        _popcount(terms[0], TARGET).to(tl.float32),
        _popcount(terms[1], TARGET).to(tl.float32),
        _popcount(terms[2], TARGET).to(tl.float32),
        _popcount(terms[3], TARGET).to(tl.float32),
        _popcount(terms[4], TARGET).to(tl.float32),
        _popcount(terms[5], TARGET).to(tl.float32),
        _popcount(terms[6], TARGET).to(tl.float32),
    )
    minus4 = _popcount(terms[5] & sign, TARGET).to(tl.float32)
    minus6 = _popcount(terms[6] & sign, TARGET).to(tl.float32)
    a = tl.zeros_like(minus4)
    b = tl.zeros_like(minus4)
    for k in tl.static_range(7):
        a += counts[k] * _FIRST[2 * k]
        b += counts[k] * _FIRST[2 * k + 1]
    best = tl.zeros_like(minus4) - 1.0
    sums = tl.zeros_like(minus4) + 1.0
    rank = tl.zeros_like(scale)
    best_turned = best
    sums_turned = sums
    rank_turned = rank
    plus4 = counts[5] - minus4
    plus6 = counts[6] - minus6
    for i in tl.static_range(_STEPS):
        for k in tl.static_range(7):
            if _WALK[18 * i + 2 * k] != 0:
                a += counts[k] * _WALK[18 * i + 2 * k]
                b += counts[k] * _WALK[18 * i + 2 * k + 1]
        full_a, full_b = _with_eights(a, b, minus4, minus6, _WALK[18 * i + 16], _WALK[18 * i + 17])
        best, sums, rank = _better(best, sums, rank, full_a, full_b, _WALK[18 * i + 14], TARGET)
        if _WALK[18 * i + 15] >= 0:
            full_a, full_b = _with_eights(a, b, plus4, plus6, _WALK[18 * i + 16], _WALK[18 * i + 17])
            best_turned, sums_turned, rank_turned = _better(
                best_turned, sums_turned, rank_turned, full_a, full_b, _WALK[18 * i + 15], TARGET
            )
    turn = best_turned > best  # among equals the positive scale wins, as in the reference
    sums = tl.where(turn, sums_turned, sums)
    rank = tl.where(turn, rank_turned, rank)
    top = tl.floor(sums * (1.0 / 4096.0))
    bottom = tl.fma(top, -4096.0, sums)
    word = tl.load(maps + rank).to(tl.uint32, bitcast=True)
    m0 = tl.zeros_like(sign)
    m1 = tl.zeros_like(sign)
    m2 = tl.zeros_like(sign)
    for k in tl.static_range(7):
        m0 = _pick(terms[k], word, 3 * k, m0)
        m1 = _pick(terms[k], word, 3 * k + 1, m1)
        m2 = _pick(terms[k], word, 3 * k + 2, m2)
    eights = (terms[5] & _flag(word, 21)) | (terms[6] & _flag(word, 22))
    turned = _flag(word, 23)
    _store(words, row, live, m0, m1, m2, sign ^ turned, eights, BLOCKS)
    ratio = _divide(top, 2.0 * bottom, TARGET).to(tl.uint32, bitcast=True)
    rounded = ((ratio + 0x7FFF + ((ratio >> 16) & 1)) >> 16).to(tl.int32, bitcast=True)
    value = rounded + ((scale - doublings - 127) << 7) + (turned & 0x8000).to(tl.int32, bitcast=True)
    odd = (scale < 112) | (scale > 252) | ((b1 & b2) == 0)
    tl.store(bits + row, tl.where(odd, 0x7FC0, value).to(tl.int16), mask=live)
