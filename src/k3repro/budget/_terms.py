"""What a GPU holds besides weights and KV: as published for a launch, else the engine's own reserve."""

from __future__ import annotations

from dataclasses import dataclass

from k3repro.errors import InputError
from k3repro.spec import Layout, Platform
from k3repro.toml import shipped_toml
from k3repro.units import GIB

_PUBLISHED = shipped_toml("k3repro.spec", "data/published-terms.toml")["terms"]

OVERHEAD: int = _PUBLISHED["overhead_bytes"][0]
"""Activations, graph capture, reserve and fragmentation, in bytes per GPU, as published."""

HEAP: int = _PUBLISHED["heap_bytes"][0]
"""Communication heap in bytes per GPU, as published (the smaller platform's layouts have their own)."""

LARGE_GPU = 70 * GIB
"""From here on vLLM takes its larger defaults of slots and tokens a step."""


@dataclass(frozen=True, slots=True)
class Terms:
    """Bytes per GPU that neither weights nor KV may take, and where they come from."""

    heap: int
    overhead: int
    basis: str


def default_utilization(version: tuple[int, int, int]) -> float:
    """Share of a GPU that vLLM takes unless told: 0.90, in current sources 0.92.

    The release that raised it is not verified; it is taken as 0.21, the first that counts CUDA graphs in.
    """
    return 0.92 if version >= (0, 21, 0) else 0.90


def default_slots(platform: Platform) -> int:
    """max_num_seqs of `vllm serve` unless told (vLLM engine arguments; quoted in public refusals)."""
    return 1024 if platform.hbm_bytes >= LARGE_GPU else 256


def default_step_tokens(platform: Platform) -> int:
    """max_num_batched_tokens of `vllm serve` unless told (vLLM engine arguments)."""
    return 8192 if platform.hbm_bytes >= LARGE_GPU else 2048


def terms_of(
    platform: Platform, layout: Layout | None = None, *, version: tuple[int, int, int] = (0, 27, 0),
    utilization: float | None = None, heap: int | None = None, overhead: int | None = None,
) -> Terms:  # fmt: skip
    """Heap and overhead of a launch: what was given, else as published for it, else the engine's own reserve.

    Without a publication there is no communication heap, and the overhead is what `utilization` leaves free;
    activations and CUDA graphs come off the rest when the engine profiles, so the pool is an upper bound.

    Raises:
        InputError: a utilization outside (0, 1].
    """
    published = layout is not None and layout.heap_bytes is not None
    share = utilization or (layout.gpu_memory_utilization if layout else None) or default_utilization(version)
    if not 0 < share <= 1:
        raise InputError(f"gpu_memory_utilization lies above 0 and at most at 1, not {share:g}")
    if published and utilization is None:
        assert layout is not None and layout.heap_bytes is not None
        base = Terms(
            layout.heap_bytes, OVERHEAD, f"{layout.name}: heap as published, overhead of its Table 1"
        )
    else:
        left = platform.hbm_bytes - int(platform.hbm_bytes * share)
        basis = f"{share:g} of the GPU's memory, activations and CUDA graphs not taken off: an upper bound"
        base = Terms(0, left, basis)
    return Terms(
        base.heap if heap is None else heap, base.overhead if overhead is None else overhead, base.basis
    )
