"""What an engine version does when it sizes KV blocks: every rule that changed between vLLM 0.11 and 0.33.

Source: `blocklaw.md` sections 1 to 3, read from released sources. A version it does not cover is refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

from k3repro.errors import InputError
from k3repro.spec import Layout

Version = tuple[int, int, int]


def ceil_div(a: int, b: int) -> int:
    """The least integer not below a / b."""
    return -(-a // b)


OLDEST: Version = (0, 11, 0)
NEWEST: Version = (0, 33, 999)

# Attention backend -> (smallest kernel block, block size it prefers when none is asked for).
BACKENDS: dict[str, tuple[int, int]] = {
    "ROCM_AITER_MLA": (1, 16),
    "TRITON_MLA": (16, 16),
    "FLASH_ATTN_MLA": (16, 16),
    "FLASHINFER_MLA": (32, 32),
    "FLASHMLA": (64, 64),
    "CUTLASS_MLA": (128, 128),
    "FLASH_ATTN": (16, 16),
    "TRITON_ATTN": (16, 16),
    "FLASHINFER": (16, 16),
    "ROCM_ATTN": (16, 16),
    "ROCM_AITER_FA": (16, 16),
    "ROCM_AITER_UNIFIED": (16, 64),
}

KV_WIDTHS = {
    "auto": 2, "bfloat16": 2, "bf16": 2, "float16": 2, "fp16": 2,
    "fp8": 1, "fp8_e4m3": 1, "fp8_e5m2": 1, "fp8_ds_mla": 1,
}  # fmt: skip
SSM_WIDTHS = {"auto": None, "float32": 4, "bfloat16": 2, "float16": 2}
MODES = ("none", "align", "all")


def parse_version(text: str) -> Version:
    """A version from ``0.27``, ``v0.27.1``, ``vllm==0.28.0`` or a nightly such as ``0.27.1.dev3+gabc``.

    Raises:
        InputError: not a version, or one whose rules are not known.
    """
    match = re.fullmatch(
        r"(?:vllm\s*==\s*)?v?(\d+)\.(\d+)(?:\.(\d+))?([.\-+]?[a-z][\w.+\-]*|\+[\w.]+)?", text.strip()
    )
    if match is None:
        raise InputError(f"{text!r} is not an engine version", fix="Write it like vllm==0.28.0.")
    version = (int(match[1]), int(match[2]), int(match[3] or 0))
    if not OLDEST <= version <= NEWEST:
        raise InputError(f"the block rules of vLLM {text} are not known", fix="Known: 0.11.0 to 0.33.")
    return version


@dataclass(frozen=True, slots=True)
class Engine:
    """Everything of a launch that the block law depends on.

    `prefix_caching` None takes the version's default. `speculative` is k, the draft tokens per step;
    `checkpoint_blocks` is c, 1 where the state layers reserve a prefill-checkpoint block (0 on gfx942).
    `replay_bytes` is what replay records add to a layer's state where that is enabled.
    `kernel_block` overrides the backend's smallest block; `kernel_blocks` lists those of all backends (0.32).
    `in_flight_tokens` is max_num_batched_tokens, which sliding windows add to their need.
    """

    version: Version = (0, 27, 0)
    tp: int = 1
    pp: int = 1
    dp: int = 1
    dcp: int = 1
    kv_dtype: str = "auto"
    prefix_caching: bool | None = None
    mamba_mode: str | None = None
    full_prefix_support: bool = True
    speculative: int = 0
    checkpoint_blocks: int = 0
    replay_state: bool = False
    replay_bytes: int = 0
    backend: str | None = None
    kernel_block: int | None = None
    kernel_blocks: tuple[int, ...] = ()
    block_size: int | None = None
    mamba_block_size: int | None = None
    ssm_dtype: str = "auto"
    prefill_alignment: int = 1
    blackwell_flashinfer: bool = False
    in_flight_tokens: int = 2048
    hybrid_manager: bool = True

    def __post_init__(self) -> None:
        for name in ("tp", "pp", "dp", "dcp", "prefill_alignment", "in_flight_tokens"):
            _at_least(name, getattr(self, name), 1)
        for name in ("speculative", "checkpoint_blocks"):
            _at_least(name, getattr(self, name), 0)
        for name in ("block_size", "kernel_block", "mamba_block_size"):
            if getattr(self, name) is not None:
                _at_least(name, getattr(self, name), 1)
        if self.tp % self.dcp:
            raise InputError(f"DCP{self.dcp} does not divide TP{self.tp}")
        _one_of("KV dtype", self.kv_dtype, KV_WIDTHS)
        _one_of("state dtype", self.ssm_dtype, SSM_WIDTHS)
        if self.backend is not None:
            _one_of("attention backend", self.backend, BACKENDS)
        if self.mamba_mode is not None:
            _one_of("Mamba cache mode", self.mamba_mode, MODES)

    @property
    def smallest_block(self) -> int:
        """The backend's smallest kernel block in tokens."""
        return self.kernel_block or (BACKENDS[self.backend][0] if self.backend else 16)

    @property
    def preferred_block(self) -> int:
        """The block size used when none is asked for."""
        return BACKENDS[self.backend][1] if self.backend else max(16, self.smallest_block)

    @property
    def kv_width(self) -> int:
        """Bytes per cached element."""
        return KV_WIDTHS[self.kv_dtype]

    @property
    def caches_prefixes(self) -> bool:
        """Whether a hybrid caches prefixes: off by default through 0.27, on from 0.28."""
        return self.version >= (0, 28, 0) if self.prefix_caching is None else self.prefix_caching


def _at_least(name: str, value: int, least: int) -> None:
    if value < least:
        raise InputError(f"{name} must be at least {least}, not {value}")


def _one_of(what: str, value: str, known: Iterable[str]) -> None:
    if value not in set(known):
        raise InputError(f"unknown {what} {value!r}", fix=f"Known: {', '.join(known)}.")


def state_mode(engine: Engine, *, mamba2: bool) -> str:
    """How state blocks are laid out: "none" (one per request), "align" or "all" (Mamba-2 only).

    Raises:
        InputError: the version has no such mode for these layers.
    """
    mode = engine.mamba_mode or _default_mode(engine, mamba2=mamba2)
    if mode == "align" and engine.version < (0, 15, 0):
        raise InputError(
            "mode align exists from vLLM 0.15", fix="Turn prefix caching off or name a later version."
        )
    if mode == "all" and not (mamba2 and (0, 11, 1) <= engine.version < (0, 32, 0)):
        raise InputError("mode all exists for Mamba-2 layers in vLLM 0.11.1 to 0.31 only")
    if mode != "none" and not engine.caches_prefixes and engine.prefix_caching is not None:
        raise InputError(f"mode {mode} needs prefix caching", fix="Add --prefix-caching.")
    return mode


def _default_mode(engine: Engine, *, mamba2: bool) -> str:
    if not engine.caches_prefixes:
        return "none"
    everywhere = mamba2 and engine.full_prefix_support and (0, 11, 1) <= engine.version < (0, 28, 0)
    return "all" if everywhere else "align"


def grain(engine: Engine, *, mla: bool, head_dim: int | None, mode: str) -> int:
    """The number of tokens a hybrid's block size is a multiple of."""
    version = engine.version
    if version < (0, 20, 0):
        return _early_grain(engine, mla=mla, head_dim=head_dim)
    g = max(engine.smallest_block, engine.block_size or engine.preferred_block)
    if version >= (0, 27, 0) and mla:
        g = max(g, 128)
    if version >= (0, 32, 0):
        step = math.lcm(*(engine.kernel_blocks or (engine.smallest_block,)))
        g = step * ceil_div(g, step)
    if version >= (0, 33, 0) and mode == "align":
        g = math.lcm(g, engine.prefill_alignment)
    return g


def _early_grain(engine: Engine, *, mla: bool, head_dim: int | None) -> int:
    if engine.version == (0, 11, 0):
        return 16
    if mla:
        return 128 if engine.backend == "CUTLASS_MLA" else 64
    wide_heads = engine.blackwell_flashinfer and head_dim == 256
    return 32 if wide_heads and engine.version < (0, 18, 0) else 16


def fold_limit(version: Version) -> float:
    """Largest ratio of bucket sizes at which layers are grouped by the largest bucket; 0 means never."""
    if version < (0, 12, 0):
        return 0.0
    return 1.25 if version < (0, 18, 0) else 1.5


def state_blocks(engine: Engine, mode: str) -> int:
    """State blocks one request holds per state group, in modes none and align."""
    k = engine.speculative
    if engine.version >= (0, 29, 0) and engine.replay_state:
        k = 0
    if mode == "none":
        return 1 + (k if engine.version >= (0, 15, 0) else 0)
    return 2 + k + engine.checkpoint_blocks


def withheld_at_startup(version: Version) -> int:
    """Blocks the start-up check keeps back: one (the null block) from 0.29, none before."""
    return 1 if version >= (0, 29, 0) else 0


def prints_concurrency_tokens(version: Version) -> bool:
    """Whether "KV cache size" means concurrency x max_model_len (0.21 on), not blocks per group x block."""
    return version >= (0, 21, 0)


def engine_of(layout: Layout, *, prefix_caching: bool | None = None) -> Engine:
    """The engine a layout describes, with its own prefix caching unless told otherwise."""
    return Engine(
        version=parse_version(layout.engine_version),
        tp=layout.tp,
        pp=layout.pp,
        dp=layout.dp,
        dcp=layout.dcp,
        kv_dtype=layout.kv_dtype,
        prefix_caching=layout.prefix_caching if prefix_caching is None else prefix_caching,
        block_size=layout.block_size,
        in_flight_tokens=layout.max_num_batched_tokens or 2048,
    )
