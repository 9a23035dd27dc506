"""The conversion as Triton kernels: one thread holds a block, bit planes, no lookup of codes.

Three-input logic instructions (LOP3 on NVIDIA, and what gfx942 offers in its place) make bit planes cheaper
than byte permutes: transposing four words takes about twenty instructions, each output bit two or three more.
Only population count and reciprocal are named per vendor. A block that needs the reference (all zero, or a
scale byte outside 112..252) gets the scale NaN, which no good block has; `kernels.mend` repairs it.
"""
# mypy: ignore-errors
# ruff: noqa: RET505, UP031 (Triton needs the branches of a constexpr spelled out, and knows no format strings)

from __future__ import annotations

from functools import reduce
from operator import and_, or_

import triton
import triton.language as tl

from k3repro.mxfp4._walk import COUNTS, FIRST_COUNTS, MAPS, STEPS, WALK

_FIRST: tl.constexpr = tl.constexpr(FIRST_COUNTS)
_STEPS: tl.constexpr = tl.constexpr(STEPS)
_WALK: tl.constexpr = tl.constexpr(WALK)
_COUNTS: tl.constexpr = tl.constexpr(COUNTS)
_EVER: tl.constexpr = tl.constexpr(reduce(or_, MAPS))
_ALWAYS: tl.constexpr = tl.constexpr(reduce(and_, MAPS))


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
def _normalise(b0, b1, b2, TARGET: tl.constexpr):
    """Double until some magnitude is 4 or 6; and how often. Real blocks are so: one vote a warp asks."""
    if TARGET == "cuda":
        return tl.inline_asm_elementwise(
            """{
            .reg .pred small, any;
            .reg .b32 n0, n1, n2, k;
            mov.b32 $0, $4;
            mov.b32 $1, $5;
            mov.b32 $2, $6;
            mov.b32 $3, 0;
            mov.b32 k, 3;
            again:
            and.b32 n0, $1, $2;
            setp.eq.u32 small, n0, 0;
            vote.sync.any.pred any, small, 0xffffffff;
            @!any bra.uni done;
            lop3.b32 n0, $0, $1, $2, 0xe0;
            lop3.b32 n1, $0, $1, $2, 0xba;
            or.b32 n2, $1, $2;
            selp.b32 $0, n0, $0, small;
            selp.b32 $1, n1, $1, small;
            selp.b32 $2, n2, $2, small;
            @small add.u32 $3, $3, 1;
            sub.u32 k, k, 1;
            setp.ne.u32 any, k, 0;
            @any bra.uni again;
            done:
            }""",
            "=&r,=&r,=&r,=&r,r,r,r", [b0, b1, b2], dtype=(tl.uint32, tl.uint32, tl.uint32, tl.int32),
            is_pure=True, pack=1,
        )  # fmt: skip
    else:
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
    packed, scales, words, bits, blocks, PEAK4: tl.constexpr, PEAK6: tl.constexpr,
    TARGET: tl.constexpr, BLOCKS: tl.constexpr,
):  # fmt: skip
    """Blocks [n, 4] int32 and scale bytes [n] -> uint4b8 words [n, 4] and bfloat16 bits [n]."""
    row = tl.program_id(0) * BLOCKS + tl.arange(0, BLOCKS)
    live = row < blocks
    b0, b1, b2, sign = _load(packed, row, live, BLOCKS)
    scale = tl.load(scales + row, mask=live, other=127).to(tl.int32)
    b0, b1, b2, doublings = _normalise(b0, b1, b2, TARGET)
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
    """Keep the better of two; 2A <= 3072 and B <= 2048 share one float32 exactly: one register, not two."""
    if TARGET == "cuda":
        # `_divide` again; predicated multiply-adds for selects, which the integer unit would have to do
        return tl.inline_asm_elementwise(
            """{
            .reg .pred wins;
            .reg .f32 square, r, q, rest, score;
            mul.rn.f32 square, $6, $6;
            rcp.approx.ftz.f32 r, $7;
            mul.rn.f32 q, square, r;
            neg.f32 rest, $7;
            fma.rn.f32 rest, rest, q, square;
            fma.rn.f32 score, r, rest, q;
            setp.gt.f32 wins, score, $0;
            @wins fma.rn.f32 $0, r, rest, q;
            @wins fma.rn.f32 $1, $6, 0f45800000, $7;
            @wins fma.rn.f32 $2, $6, 0f00000000, %d.0;
            }"""
            % RANK,
            "=f,=f,=f,0,1,2,f,f", [best, sums, rank, a, b],
            dtype=(tl.float32, tl.float32, tl.float32), is_pure=True, pack=1,
        )  # fmt: skip
    else:
        score = _divide(a * a, b, TARGET)
        wins = score > best
        return (
            tl.where(wins, score, best),
            tl.where(wins, tl.fma(a, 4096.0, b), sums),
            tl.where(wins, RANK, rank),
        )


@triton.jit
def _flag(word, BIT: tl.constexpr, TARGET: tl.constexpr):
    """All ones where the bit is set: on NVIDIA one byte permute, which can repeat the sign of a byte."""
    if TARGET == "cuda":
        return tl.inline_asm_elementwise(
            "prmt.b32 $0, $1, 0, %d;" % (0x8888 + 0x1111 * (BIT // 8)),
            "=r,r", [word << (7 - BIT % 8)], dtype=tl.uint32, is_pure=True, pack=1,
        )  # fmt: skip
    else:
        return ((word << (31 - BIT)).to(tl.int32, bitcast=True) >> 31).to(tl.uint32, bitcast=True)


@triton.jit
def _pick(term, word, BIT: tl.constexpr, plane, TARGET: tl.constexpr):
    if (_ALWAYS >> BIT) & 1:
        return plane | term
    elif (_EVER >> BIT) & 1:
        return plane | (term & _flag(word, BIT, TARGET))
    else:
        return plane


@triton.jit
def mse(packed, scales, words, bits, maps, blocks, TARGET: tl.constexpr, BLOCKS: tl.constexpr):
    """As `amax7`, with the best scale of either sign; `maps`: the nibble maps of the steps, uint32."""
    row = tl.program_id(0) * BLOCKS + tl.arange(0, BLOCKS)
    live = row < blocks
    b0, b1, b2, sign = _load(packed, row, live, BLOCKS)
    scale = tl.load(scales + row, mask=live, other=127).to(tl.int32)
    b0, b1, b2, doublings = _normalise(b0, b1, b2, TARGET)
    terms = (
        b0 & ~b1 & ~b2, ~b0 & b1 & ~b2, b0 & b1 & ~b2,
        ~b0 & ~b1 & b2, b0 & ~b1 & b2, ~b0 & b1 & b2, b0 & b1 & b2,
    )  # fmt: skip
    fours = _popcount(terms[5], TARGET)
    sixes = _popcount(terms[6], TARGET)
    minus4 = _popcount(terms[5] & sign, TARGET)
    minus6 = _popcount(terms[6] & sign, TARGET)
    # the sign of the scale with which more peaks reach -8; among equals the positive one, as in the reference
    turn = tl.where(sixes > 0, 2 * minus6 < sixes, 2 * minus4 < fours)
    counts = (
        _popcount(terms[0], TARGET).to(tl.float32),
        _popcount(terms[1], TARGET).to(tl.float32),
        _popcount(terms[2], TARGET).to(tl.float32),
        _popcount(terms[3], TARGET).to(tl.float32),
        _popcount(terms[4], TARGET).to(tl.float32),
        fours.to(tl.float32),
        sixes.to(tl.float32),
        tl.where(turn, fours - minus4, minus4).to(tl.float32),
        tl.where(turn, sixes - minus6, minus6).to(tl.float32),
    )
    a = tl.zeros_like(counts[0])
    b = tl.zeros_like(counts[0])
    for k in tl.static_range(_COUNTS):
        if _FIRST[2 * k] != 0:
            a += counts[k] * _FIRST[2 * k]
            b += counts[k] * _FIRST[2 * k + 1]
    best = tl.zeros_like(a) - 1.0
    sums = tl.zeros_like(a) + 1.0
    rank = tl.zeros_like(a)
    for i in tl.static_range(_STEPS):
        for k in tl.static_range(_COUNTS):
            if _WALK[2 * (_COUNTS * i + k)] != 0:
                a += counts[k] * _WALK[2 * (_COUNTS * i + k)]
                b += counts[k] * _WALK[2 * (_COUNTS * i + k) + 1]
        best, sums, rank = _better(best, sums, rank, a, b, i, TARGET)
    top = tl.floor(sums * (1.0 / 4096.0))
    bottom = tl.fma(top, -4096.0, sums)
    word = tl.load(maps + rank.to(tl.int32)).to(tl.uint32, bitcast=True)
    m0 = tl.zeros_like(sign)
    m1 = tl.zeros_like(sign)
    m2 = tl.zeros_like(sign)
    for k in tl.static_range(7):
        m0 = _pick(terms[k], word, 3 * k, m0, TARGET)
        m1 = _pick(terms[k], word, 3 * k + 1, m1, TARGET)
        m2 = _pick(terms[k], word, 3 * k + 2, m2, TARGET)
    eights = (terms[5] & _flag(word, 21, TARGET)) | (terms[6] & _flag(word, 22, TARGET))
    # where nothing reaches -8 either sign is as good, and the positive one stands
    turned = tl.where(turn & (eights != 0), 0xFFFFFFFF, 0).to(tl.uint32)
    _store(words, row, live, m0, m1, m2, sign ^ turned, eights, BLOCKS)
    ratio = _divide(top, 2.0 * bottom, TARGET).to(tl.uint32, bitcast=True)
    rounded = ((ratio + 0x7FFF + ((ratio >> 16) & 1)) >> 16).to(tl.int32, bitcast=True)
    value = rounded + ((scale - doublings - 127) << 7) + (turned & 0x8000).to(tl.int32, bitcast=True)
    odd = (scale < 112) | (scale > 252) | ((b1 & b2) == 0)
    tl.store(bits + row, tl.where(odd, 0x7FC0, value).to(tl.int16), mask=live)
