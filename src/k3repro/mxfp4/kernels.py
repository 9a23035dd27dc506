"""The conversion on an accelerator: launch, mend, and compilation for hardware that is not here.

Needs PyTorch and Triton, which the core does not install.
"""

from __future__ import annotations

from functools import cache
from types import ModuleType
from typing import Any, Literal

import numpy as np

from k3repro.errors import InputError, MissingExtra
from k3repro.mxfp4._bf16 import bf16_bits
from k3repro.mxfp4._fast import requantise
from k3repro.mxfp4._format import check_block_shapes
from k3repro.mxfp4._walk import MAPS

DeviceRule = Literal["amax7", "mse"]

ODD_BITS = 0x7FC0  # bfloat16 NaN: the kernel's mark of a block it leaves to the CPU
WARP = {"cuda": 32, "hip": 64}
PEAK_BITS = tuple(int(bf16_bits(np.float32(peak / 7))) for peak in (4.0, 6.0))


def _modules() -> tuple[Any, ModuleType]:
    try:
        import torch

        from k3repro.mxfp4 import _kernels
    except ImportError as error:
        raise MissingExtra(
            f"the accelerator path needs PyTorch and Triton ({error.name} is missing)",
            fix="Install them, or use the CPU path: k3repro.mxfp4.requantise.",
        ) from None
    return torch, _kernels


@cache
def _maps(device: str) -> Any:
    torch, _ = _modules()
    return torch.from_numpy(np.array(MAPS, dtype=np.int32)).to(device)


def launch(packed: Any, scales: Any, rule: DeviceRule = "amax7", *, warps: int = 4) -> tuple[Any, Any]:
    """Convert on the tensors' device: uint8 [..., K/2], [..., K/32] -> int32 [..., K/8], int16 [..., K/32].

    The second result holds bfloat16 bits; NaN (0x7FC0) marks blocks for `mend`. Nothing is checked.
    """
    torch, kernels = _modules()
    target = "hip" if torch.version.hip else "cuda"
    blocks_at_once = warps * WARP[target]  # one block a thread: then no layout conversion goes through memory
    count = scales.numel()
    words = torch.empty((*packed.shape[:-1], packed.shape[-1] // 4), dtype=torch.int32, device=packed.device)
    bits = torch.empty(scales.shape, dtype=torch.int16, device=packed.device)
    grid = (-(-count // blocks_at_once),)
    source = packed.contiguous().view(torch.int32)
    if rule == "amax7":
        kernels.amax7[grid](
            source,
            scales,
            words,
            bits,
            count,
            *PEAK_BITS,
            TARGET=target,
            BLOCKS=blocks_at_once,
            num_warps=warps,
        )
    else:
        maps = _maps(str(packed.device))
        kernels.mse[grid](
            source, scales, words, bits, maps, count, TARGET=target, BLOCKS=blocks_at_once, num_warps=warps
        )
    return words, bits


def mend(packed: Any, scales: Any, words: Any, bits: Any, rule: DeviceRule, *, where: str = "") -> int:
    """Convert the blocks that the kernel marked on the CPU, in place; returns how many there were.

    Raises:
        InputError: a marked block has no conversion (a NaN scale, or a value that bfloat16 cannot hold).
    """
    torch, _ = _modules()
    index = torch.nonzero(bits.view(-1) == ODD_BITS).view(-1)
    if index.numel():
        blocks, bytes_ = packed.view(-1, 16)[index].cpu().numpy(), scales.view(-1, 1)[index].cpu().numpy()
        fixed, fixed_bits = requantise(blocks, bytes_, rule, where=where)
        words.view(-1, 4)[index] = torch.from_numpy(fixed.view(np.int32)).to(words.device)
        bits.view(-1)[index] = torch.from_numpy(fixed_bits.view(np.int16)[:, 0]).to(bits.device)
    return int(index.numel())


def requantise_device(
    packed: Any, scales: Any, rule: DeviceRule = "amax7", *, where: str = ""
) -> tuple[Any, Any]:
    """`requantise` on an accelerator: int32 words [..., K/8] and bfloat16 scales [..., K/32] as tensors.

    Raises:
        InputError: as `requantise`.
        MissingExtra: no PyTorch or Triton.
    """
    torch, _ = _modules()
    check_block_shapes(tuple(packed.shape), tuple(scales.shape), where)
    if rule not in ("amax7", "mse"):
        raise InputError(f"no kernel for rule {rule!r}", fix="Use amax7 or mse, or the CPU path.")
    words, bits = launch(packed, scales, rule)
    mend(packed, scales, words, bits, rule, where=where)
    return words, bits.view(torch.bfloat16)


def compile_ahead(rule: DeviceRule, backend: Literal["cuda", "hip"], arch: int | str) -> Any:
    """Compile a kernel for hardware that need not be present: ("cuda", 90) or ("hip", "gfx942").

    Returns Triton's compiled kernel; `.asm` holds "ptx" and "cubin", or "amdgcn" and "hsaco".
    """
    try:
        from triton.backends.compiler import GPUTarget
        from triton.compiler import ASTSource
        from triton.compiler import compile as compile_source

        from k3repro.mxfp4 import _kernels
    except ImportError as error:
        raise MissingExtra(f"compiling needs Triton ({error.name} is missing)") from None
    pointers = {"packed": "*i32", "scales": "*u8", "words": "*i32", "bits": "*i16"}
    constants: dict[str, Any] = {"BLOCKS": 4 * WARP[backend], "TARGET": backend}
    if rule == "amax7":
        signature = {**pointers, "blocks": "i32", "PEAK4": "constexpr", "PEAK6": "constexpr"}
        constants |= {"PEAK4": PEAK_BITS[0], "PEAK6": PEAK_BITS[1]}
    else:
        signature = {**pointers, "maps": "*i32", "blocks": "i32"}
    signature |= {"TARGET": "constexpr", "BLOCKS": "constexpr"}
    names = list(signature)
    source = ASTSource(
        fn=getattr(_kernels, rule),
        signature=signature,
        constexprs={(names.index(name),): value for name, value in constants.items()},
        attrs={(names.index(name),): [["tt.divisibility", 16]] for name in pointers},
    )
    target = GPUTarget(backend, arch, WARP[backend])
    return compile_source(source, target=target, options={"num_warps": 4})
