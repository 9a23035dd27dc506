"""Kinds of token mixing and what each keeps per token or per request, before any engine rounds it.

Bytes are per layer and per tensor-parallel rank. Rules: `blocklaw.md` section 1, from the engine's source.
"""

from __future__ import annotations

from dataclasses import dataclass

from k3repro.errors import SpecError

CONV_BYTES = 2
"""Convolution state is kept in the model's dtype, bf16."""


def _share(total: int, tp: int, what: str) -> int:
    if total % tp:
        raise SpecError(
            f"TP{tp} does not divide {total} {what}", fix="Choose a tensor-parallel size that does."
        )
    return total // tp


@dataclass(frozen=True, slots=True)
class Mla:
    """Multi-head latent attention: one latent per token, whole on every rank whatever the TP."""

    heads: int
    kv_lora: int
    nope: int
    rope: int
    v: int
    q_lora: int | None = None
    output_gate: bool = False

    def token_elements(self, tp: int) -> int:
        """Cached elements per token: latent plus rotary (or un-rotated) channels."""
        _share(self.heads, tp, "attention heads")
        return self.kv_lora + self.rope


@dataclass(frozen=True, slots=True)
class Gqa:
    """Grouped-query attention, on layers of kind "window" within a sliding window of tokens.

    `qk_norm_whole` norms all heads together; an `output_gate` doubles the query projection.
    """

    heads: int
    kv_heads: int
    head_dim: int
    window: int | None = None
    qk_norm: bool = False
    qk_norm_whole: bool = False
    qkv_bias: bool = False
    bias: bool = False
    sinks: bool = False
    output_gate: bool = False

    def token_elements(self, tp: int) -> int:
        """Keys and values of this rank's heads; a rank never holds less than one KV head."""
        _share(self.heads, tp, "attention heads")
        if self.kv_heads >= tp:
            _share(self.kv_heads, tp, "KV heads")
        elif tp % self.kv_heads:
            raise SpecError(f"{self.kv_heads} KV heads cannot be repeated evenly over TP{tp}")
        return 2 * max(1, self.kv_heads // tp) * self.head_dim


@dataclass(frozen=True, slots=True)
class Kda:
    """Kimi Delta Attention: three short convolutions and one recurrent matrix per head."""

    heads: int
    head_dim: int
    taps: int = 4
    full_rank_gate: bool = False
    a_log: int | None = None
    state_bytes_per_element: int = 4

    def state_bytes(self, tp: int, speculative: int, recurrent_bytes: int | None = None) -> int:
        """State of one request; `speculative` tokens lengthen the convolution window."""
        heads = _share(self.heads, tp, "KDA heads")
        conv = 3 * heads * self.head_dim * (self.taps - 1 + speculative) * CONV_BYTES
        return conv + heads * self.head_dim * self.head_dim * (
            recurrent_bytes or self.state_bytes_per_element
        )


@dataclass(frozen=True, slots=True)
class Gdn:
    """Gated DeltaNet (Qwen3-Next and Qwen3.5 class)."""

    k_heads: int
    k_dim: int
    v_heads: int
    v_dim: int
    taps: int = 4
    state_bytes_per_element: int = 4

    def state_bytes(self, tp: int, speculative: int, recurrent_bytes: int | None = None) -> int:
        """State of one request: convolution over q, k, v channels, and one matrix per value head."""
        channels = _share(
            2 * self.k_heads * self.k_dim + self.v_heads * self.v_dim, tp, "convolution channels"
        )
        heads = _share(self.v_heads, tp, "value heads")
        conv = channels * (self.taps - 1 + speculative) * CONV_BYTES
        return conv + heads * self.k_dim * self.v_dim * (recurrent_bytes or self.state_bytes_per_element)


@dataclass(frozen=True, slots=True)
class Mamba2:
    """Mamba-2 mixer (Nemotron-H, Bamba, Falcon-H1, Granite hybrid class)."""

    heads: int
    head_dim: int
    groups: int
    state: int
    taps: int = 4
    chunk: int = 256
    norm: bool = True
    state_bytes_per_element: int = 4

    def state_bytes(self, tp: int, speculative: int, recurrent_bytes: int | None = None) -> int:
        """State of one request; groups that TP does not divide are repeated until it does."""
        groups = self.groups if self.groups % tp == 0 else _repeated(self.groups, tp)
        channels = self.heads * self.head_dim + 2 * groups * self.state
        conv = _share(channels, tp, "convolution channels") * (self.taps - 1 + speculative) * CONV_BYTES
        heads = _share(self.heads, tp, "Mamba heads")
        return conv + heads * self.head_dim * self.state * (recurrent_bytes or self.state_bytes_per_element)


def _repeated(groups: int, tp: int) -> int:
    if groups != 1:
        raise SpecError(
            f"TP{tp} does not divide {groups} Mamba groups", fix="Only a single group is repeated over TP."
        )
    return tp
