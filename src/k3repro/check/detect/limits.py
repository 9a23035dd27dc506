"""What a named model or GPU allows: KV bytes a token, bytes of weights at a precision, rates under the peak.

Precondition: the sentence names exactly one known model (and, for a rate per GPU, one known GPU) and no other
of its kind, speaks of the whole model (no `per GPU`, `per layer`, rank or degree), and the words beside the
number say what it is. KV: 0.5, 1 or 2 bytes a number with up to 15 % of scales. Weights: what the precision
named gives (any of 4, 8 and 16 bits where none is), with half as much again for the parts that stay wider.
Rates: only what exceeds the dense peak of the narrowest format the sentence leaves open differs; aggregates,
sparsity, caches and links are left alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

from k3repro.capacity import Engine, token_bytes
from k3repro.check._lexer import Printed
from k3repro.check._phrases import GPU_MODEL
from k3repro.check._relation import Reckoning, Relation, relate
from k3repro.check._text import Context, Sentence, show
from k3repro.check.detect.facts import model_in, parameters_of
from k3repro.errors import K3Error
from k3repro.printed import Span
from k3repro.spec import Model, Platform, platforms

__all__ = ["detect"]

_PART = re.compile(
    r"(?i)\b(?:per|each|every)[ -](?:GPU|rank|layer|node|device|card|chip|request|block|page|expert|head)|"
    r"/GPU|/rank|/layer|\b(?:TP|EP|DP|PP)[ =-]?\d|shard|draft|adapter|LoRA|indexer|saves?\b|saving|reduc|"
    r"smaller|less"
)
_WEIGHTS_AFTER = re.compile(
    r"(?i)^\s?(?:of\s)?(?:(?:model|FP\d+|BF16|INT\d|MXFP4|NVFP4)\s)?(?:weights|checkpoint)\b"
)
_WEIGHTS_BEFORE = re.compile(
    r"(?i)\bweights (?:of [\w.-]+ )?(?:alone )?(?:take|takes|occupy|are|need|require|total)\s"
    r"(?:up\s)?(?:about |roughly )?[~≈]?$"
)
_BITS = (
    (4, re.compile(r"(?i)\b(?:MX|NV)?FP4|INT4|W4A|4[- ]bit|AWQ|GPTQ|Q4")),
    (8, re.compile(r"(?i)\bFP8|INT8|W8A8|8[- ]bit|MXFP8")),
    (16, re.compile(r"(?i)\bBF16|FP16|bfloat16|half precision|16[- ]bit")),
)
_NO_PEAK = re.compile(
    r"(?i)aggregate|cluster|\bnodes?\b|rack|theoretical|spars|combined|total|servers?\b|GPUs\b|"
    r"\d\s?[x×]\s?(?:[HBM]|GPU)|L2|L1|SRAM|shared memory|register|LDS|NVLink|NVSwitch|infinity|"
    r"bidirectional|cache|prefill|input|prompt|hit"
)
_KV = Fraction(97, 100), Fraction(115, 100)
_WEIGHT = Fraction(9, 10), Fraction(3, 2)
_PEAK = Fraction(105, 100)


def detect(context: Context) -> Iterator[Relation]:
    for sentence in context.sentences:
        found = [*_of_model(sentence), *_rates(sentence)]
        yield from (relation for relation in found if relation is not None)


def _of_model(sentence: Sentence) -> Iterator[Relation | None]:
    model = model_in(sentence.text)
    if model is None or _PART.search(sentence.text):
        return
    for number in sentence.numbers:
        if number.hedge in ("at-most", "over", "at-least", "within") or number.word:
            continue
        before, after = sentence.before(number), sentence.after(number)
        if _per_token(number, after) and re.search(r"(?i)\bKV\b", sentence.text):
            yield _kv(number, model)
        elif number.unit in ("GB", "GiB", "TB") and (
            _WEIGHTS_AFTER.match(after) or _WEIGHTS_BEFORE.search(before)
        ):
            yield _weights(number, model, sentence.text)


def _per_token(number: Printed, after: str) -> bool:
    if number.dimension == (("byte", 1), ("token", -1)):
        return True
    return number.dimension == (("byte", 1),) and bool(
        re.match(r"(?i)\s?(?:of KV (?:cache )?)?per token\b", after)
    )


def _kv(number: Printed, model: Model) -> Relation | None:
    try:
        whole = token_bytes(model, Engine(kv_dtype="bfloat16"))
    except K3Error:
        return None
    readings = [
        Reckoning(f"spec: {float(whole * share):,.0f} B at {bits} bits", _around(whole * share, _KV))
        for bits, share in ((16, Fraction(1)), (8, Fraction(1, 2)), (4, Fraction(1, 4)))
        if whole
    ]
    says = f"{show(number)} of KV a token of {model.title}"
    plain = replace(number, unit=number.unit.partition("/")[0])
    return relate("kv-bytes", plain, (), readings, says) if readings else None


def _weights(number: Printed, model: Model, text: str) -> Relation | None:
    total = Fraction(parameters_of(model.name))
    named = [bits for bits, pattern in _BITS if pattern.search(text)]
    open_bits = named if len(named) == 1 else [bits for bits, _ in _BITS]
    readings = [
        Reckoning(
            f"spec: {float(total) / 1e9:,.0f}B parameters at {bits} bits", _around(total * bits / 8, _WEIGHT)
        )
        for bits in open_bits
    ]
    says = f"{show(number)} of weights of {model.title}"
    return relate("weights", number, (), readings, says) if total else None


def _around(value: Fraction | int, slack: tuple[Fraction, Fraction]) -> Span:
    return Span(value * slack[0], value * slack[1])


def _rates(sentence: Sentence) -> Iterator[Relation | None]:
    """Achieved FLOP/s, HBM bytes/s and tokens/s/GPU against the GPU's peak."""
    platform = _platform(sentence.text)
    if platform is None or _NO_PEAK.search(sentence.text):
        return
    for number in sentence.numbers:
        if number.word or number.hedge in ("at-most", "at-least"):
            continue
        if number.dimension == (("FLOP", 1), ("second", -1)) or number.unit in ("TFLOP/s", "PFLOP/s"):
            yield _under(number, _peak(platform, sentence.text), f"the dense peak of {platform.title}")
        elif number.unit == "TB/s" and re.search(r"(?i)\bHBM|memory bandwidth", sentence.text):
            yield _under(
                number, Fraction(platform.hbm_bytes_per_s), f"the memory bandwidth of {platform.title}"
            )
        elif number.unit == "tokens/s/GPU" and (model := model_in(sentence.text)) is not None:
            active = Fraction(parameters_of(model.name, active=True))
            if active:
                limit = _peak(platform, sentence.text) / (2 * active)
                yield _under(number, limit, f"what {platform.title} can compute of {model.title}")


def _platform(text: str) -> Platform | None:
    named = {m.group() for m in re.finditer(rf"\b{GPU_MODEL}\b", text)}
    known = [p for p in platforms() if p.title in named]
    return known[0] if len(named) == len(known) == 1 else None


def _peak(platform: Platform, text: str) -> Fraction:
    """The dense peak in the narrowest format that a text leaves open."""
    bits = [b for b, pattern in _BITS if pattern.search(text)] or [4]
    if min(bits) > 8:
        return Fraction(platform.bf16_flops)
    fp8 = Fraction(platform.fp8_flops or 2 * platform.bf16_flops)
    return fp8 * 2 if min(bits) == 4 and platform.native_mxfp4 else fp8


def _under(number: Printed, limit: Fraction, what: str) -> Relation | None:
    says = f"{show(number)} is no more than {what}"
    shown = float(limit) / float(number.measure.factor)
    reckoning = Reckoning(f"spec: <= {shown:,.4g} {number.unit}", Span(Fraction(0), limit * _PEAK))
    return relate("peak", number, (), [reckoning], says, bound=True)
