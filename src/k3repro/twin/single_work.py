"""What a token costs one GPU at least: bytes that must cross its memory bus, time its matrix units need.

A roofline and nothing else: weights split evenly over the ranks, every byte at the full memory rate, every
product at the dense peak of the format it is computed in, no communication, no launch, no sampling. A real
engine is slower; how much slower is what a comparison with it shows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import ceil

from k3repro.budget import passes_of
from k3repro.capacity import Engine, token_bytes
from k3repro.errors import K3Error, UsageError
from k3repro.spec import Model, load_model, load_platform

__all__ = ["Work", "work_of"]

_ONE = 1 << 64


@dataclass(frozen=True, slots=True)
class Work:
    """Per GPU: bytes and femtoseconds of a step's parts; `weight_bytes` is what one GPU has to hold.

    `fixed_bytes` are read by every step, an `expert_bytes` for each expert that some token of the step
    chose, `kv_bytes` for each token of context. `token_fs` is the time of a token's products, `sample_fs`
    that of the output head, `decode_fs` and `prefill_fs` that of one token attending to another.
    """

    weight_bytes: int
    fixed_bytes: int
    expert_bytes: int
    experts: int
    top_k: int
    kv_bytes: int
    token_fs: int
    sample_fs: int
    decode_fs: int
    prefill_fs: int
    bytes_per_s: int

    def touched(self, tokens: int) -> int:
        """Expert bytes that a step over `tokens` tokens reads, if tokens choose evenly and independently.

        The expected number of distinct experts is E (1 - (1 - k/E) ** tokens), here in 64-bit fixed point.
        """
        if not self.experts:
            return 0
        spared, factor, left = _ONE, (self.experts - self.top_k) * _ONE // self.experts, tokens
        while left:
            if left & 1:
                spared = spared * factor >> 64
            factor = factor * factor >> 64
            left >>= 1
        return self.expert_bytes * self.experts * (_ONE - spared) >> 64

    def memory_ns(self, tokens: int, context: int) -> int:
        """Time to read the weights that `tokens` tokens touch and the cache of `context` tokens."""
        read = self.fixed_bytes + self.touched(tokens) + self.kv_bytes * context
        return read * 1_000_000_000 // self.bytes_per_s

    def compute_ns(self, tokens: int, samples: int, context: int, pairs: int) -> int:
        """Time of the products of `tokens` tokens, `samples` of which are followed by the output head.

        `context` counts what decoding tokens attend to, `pairs` what prefilled tokens attend to.
        """
        work = self.token_fs * tokens + self.sample_fs * samples
        return (work + self.decode_fs * context + self.prefill_fs * pairs) // 1_000_000


@cache
def work_of(model_name: str, platform_name: str, engine: Engine, quantization: str) -> Work:
    """The work of a model on one GPU of a platform under `engine`.

    `quantization` is the format linear layers are converted to while loading, or nothing.

    Raises:
        UsageError: the ranks do not divide the model, or the format is not known.
    """
    model, gpu, tp = load_model(model_name), load_platform(platform_name), engine.tp
    try:
        passes, kv = passes_of(model, quantization or None), token_bytes(model, engine)
    except K3Error as error:
        raise UsageError(error.what, where=f"twin:{platform_name}-1n/{model_name}", fix=error.fix) from None
    rate = gpu.fp8_flops if _is_fp8(model, quantization) else gpu.bf16_flops
    head = passes.active_matrix - passes.matrix
    decode, prefill = _attention_flops(model)
    held = (
        passes.routed_bytes + passes.shared_bytes + 2 * (passes.vision + passes.active - passes.active_matrix)
    )
    return Work(
        weight_bytes=_share(held, tp),
        fixed_bytes=_share(passes.shared_bytes, tp),
        expert_bytes=_share(passes.routed_bytes, tp * max(1, passes.experts)),
        experts=passes.experts,
        top_k=passes.top_k,
        kv_bytes=kv,
        token_fs=_femto(2 * passes.matrix / rate / tp),
        sample_fs=_femto(2 * head / gpu.bf16_flops / tp),
        decode_fs=_femto(decode / gpu.bf16_flops / tp),
        prefill_fs=_femto(prefill / gpu.bf16_flops / tp),
        bytes_per_s=int(gpu.hbm_bytes_per_s),
    )


def _is_fp8(model: Model, quantization: str) -> bool:
    """Whether linear layers are multiplied in FP8: converted to it, or stored so throughout."""
    stored = {model.dense_format, model.routed_format or model.dense_format}
    return quantization.startswith("fp8") or all(form.startswith("fp8") for form in stored)


def _share(size: float, parts: int) -> int:
    return ceil(size / parts)


def _attention_flops(model: Model) -> tuple[float, float]:
    """Operations of one token attending to one other, over all layers: while decoding, and in prefill.

    MLA decodes over the latent itself (absorbed) and expands it in prefill. A sparse indexer's choice is
    not taken into account: below its top-k nothing changes.
    """
    decode = prefill = 0.0
    if model.mla:
        layers = len(model.layers_of("mla"))
        decode += 2 * model.mla.heads * (2 * model.mla.kv_lora + model.mla.rope) * layers
        prefill += 2 * model.mla.heads * (model.mla.nope + model.mla.rope + model.mla.v) * layers
    if model.gqa:
        layers = len(model.layers_of("gqa")) + len(model.layers_of("window"))
        both = 4 * model.gqa.heads * model.gqa.head_dim * layers
        decode, prefill = decode + both, prefill + both
    return decode, prefill


def _femto(seconds: float) -> int:
    return round(seconds * 1e15)
