"""The error of a weight conversion where it counts: at the output of an expert, and of sixteen mixed ones.

An expert is down(SiTU(gate(x), up(x))) with SiTU(g, u) = b tanh(g / b) sigmoid(g) * c tanh(u / c), b = 4 and
c = 25 for Kimi-K3 (`activation_situ_beta`, `activation_situ_linear_beta` of its configuration; the form is
that of the model's published `SituAndMul`).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from k3repro.mxfp4 import BLOCK, Rule, bf16_values, decode, encode, requantise, unpack_uint4b8
from k3repro.studies.int4._errors import significant
from k3repro.studies.int4._weights import draw

Doubles = npt.NDArray[np.float64]

SITU_BETA, SITU_LINEAR_BETA = 4.0, 25.0
STAGES = ("gate", "up", "activation", "expert", "mix")


def situ(gate: Doubles, up: Doubles) -> Doubles:
    """The activation of Kimi-K3's experts."""
    sigmoid = (1 + np.tanh(gate / 2)) / 2
    bounded = SITU_BETA * np.tanh(gate / SITU_BETA) * sigmoid
    product: Doubles = bounded * (SITU_LINEAR_BETA * np.tanh(up / SITU_LINEAR_BETA))
    return product


def expert_errors(
    source: str, rules: tuple[Rule, ...], *, width: int, inner: int, experts: int, tokens: int, seed: int
) -> dict[Rule, dict[str, float]]:
    """Relative RMS error at each stage, per rule; the reference is the MXFP4 expert itself.

    Every token goes through every expert; the mix weighs them as a router does: sigmoid scores, renormalised.
    Inputs are Gaussian of unit variance and weights have standard deviation 1 / sqrt(K).
    """
    rng = np.random.default_rng(seed)
    inputs = rng.standard_normal((tokens, width))
    scores = 1 / (1 + np.exp(-rng.standard_normal((tokens, experts))))
    scores /= scores.sum(axis=1, keepdims=True)
    lost = {rule: dict.fromkeys(STAGES, 0.0) for rule in rules}
    whole = dict.fromkeys(STAGES, 0.0)
    mixes = {rule: np.zeros((tokens, width)) for rule in ("reference", *rules)}
    for number in range(experts):
        matrices = [encode(draw(source, shape, rng) / shape[1] ** 0.5) for shape in _shapes(width, inner)]
        true = dict(_forward(inputs, [decode(*m).astype(np.float64) for m in matrices]))
        mixes["reference"] += scores[:, number, None] * true["expert"]
        for stage, value in true.items():
            whole[stage] += float((value * value).sum())
        for rule in rules:
            got = dict(_forward(inputs, [_converted(*m, rule) for m in matrices]))
            mixes[rule] += scores[:, number, None] * got["expert"]
            for stage, value in got.items():
                lost[rule][stage] += float(((value - true[stage]) ** 2).sum())
    whole["mix"] = float((mixes["reference"] ** 2).sum())
    for rule in rules:
        lost[rule]["mix"] = float(((mixes[rule] - mixes["reference"]) ** 2).sum())
    return {rule: {s: significant((lost[rule][s] / whole[s]) ** 0.5) for s in STAGES} for rule in rules}


def _shapes(width: int, inner: int) -> tuple[tuple[int, int], ...]:
    return (inner, width), (inner, width), (width, inner)


def _forward(inputs: Doubles, matrices: list[Doubles]) -> Iterator[tuple[str, Doubles]]:
    gate, up = inputs @ matrices[0].T, inputs @ matrices[1].T
    hidden = situ(gate, up)
    yield from (("gate", gate), ("up", up), ("activation", hidden), ("expert", hidden @ matrices[2].T))


def _converted(packed: npt.NDArray[np.uint8], scales: npt.NDArray[np.uint8], rule: Rule) -> Doubles:
    words, bits = requantise(packed, scales, rule)
    blocks = unpack_uint4b8(words).reshape(*scales.shape, BLOCK) * bf16_values(bits)[..., None].astype(
        np.float64
    )
    values: Doubles = blocks.reshape(*packed.shape[:-1], -1).astype(np.float64)
    return values
