"""The Triton kernels beside the copy bandwidth of the same device and the plain torch conversion.

    python benchmarks/bench_kernel.py --out kernel.json    on a machine with an accelerator, torch and Triton
    python benchmarks/bench_kernel.py --seal kernel.json   anywhere: seal what came back as measured

Every figure is the median of many launches between device events; bytes are bytes read plus bytes written
(35 a block: 17 of MXFP4 in, 18 of int4 out). Results are checked against the CPU path, bit for bit, on every
scale byte, and the error they leave is computed in float64.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

BYTES_PER_BLOCK = 35
INPUT_BYTES_PER_BLOCK = 17


def measure(blocks: int) -> dict[str, Any]:
    """Everything the device can tell: identity, correctness, timings, compiled code."""
    import torch
    import triton

    device = torch.device("cuda")
    properties = torch.cuda.get_device_properties(device)
    result: dict[str, Any] = {
        "device": {
            "name": properties.name,
            "multiprocessors": properties.multi_processor_count,
            "memory_bytes": properties.total_memory,
            "driver": _driver(),
            "torch": torch.__version__,
            "triton": triton.__version__,
            "runtime": torch.version.cuda or torch.version.hip,
            "python": platform.python_version(),
        },
        "blocks": blocks,
        "log": _log(),
        "checks": [_check(torch, rule) for rule in ("amax7", "mse")],
    }
    timings = [*_copy(torch, triton, blocks), *_torch_conversion(torch, triton, min(blocks, 1 << 22))]
    for source in ("uniform", "gaussian"):
        packed, scales = _inputs(torch, blocks, source)
        for rule in ("amax7", "mse"):
            timings += _kernel(torch, triton, packed, scales, rule, source)
    copy = max(t["gb_per_s"] for t in timings if t["what"] == "copy")
    for timing in timings:
        timing["of_copy"] = timing["gb_per_s"] / copy
    result["timings"] = timings
    result["code"] = [_code(rule) for rule in ("amax7", "mse")]
    return result


def _driver() -> str:
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _log() -> list[str]:
    """What the driver lists: the device as it was found."""
    command = ["nvidia-smi", "--query-gpu=name,memory.total,clocks.sm,clocks.mem,power.limit", "--format=csv"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip().splitlines()
    except (OSError, subprocess.CalledProcessError) as error:
        return [f"no nvidia-smi: {error}"]


def _inputs(torch: Any, blocks: int, source: str, seed: int = 0) -> tuple[Any, Any]:
    """Random MXFP4: bytes [blocks / 112, 1792] (K = 3584, a row of an expert) and scale bytes."""
    generator = torch.Generator(device="cuda").manual_seed(seed)
    rows = blocks // 112
    shape = (rows, 1792)
    if source == "uniform":
        packed = torch.randint(0, 256, shape, dtype=torch.uint8, device="cuda", generator=generator)
    else:
        packed = torch.empty(shape, dtype=torch.uint8, device="cuda")
        edges = torch.tensor([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0], device="cuda")
        for begin in range(0, rows, 16384):
            part = packed[begin : begin + 16384]
            values = torch.randn((part.shape[0], 112, 32), device="cuda", generator=generator)
            amax = values.abs().amax(dim=-1, keepdim=True)
            values = values / torch.exp2(torch.floor(torch.log2(amax)) - 2)
            codes = torch.bucketize(values.abs(), edges).to(torch.uint8) | (values < 0).to(torch.uint8) << 3
            pairs = codes.view(part.shape[0], 1792, 2)
            part.copy_(pairs[..., 0] | pairs[..., 1] << 4)
    scales = torch.randint(114, 124, (rows, 112), dtype=torch.uint8, device="cuda", generator=generator)
    return packed, scales


def _check(torch: Any, rule: Any) -> dict[str, Any]:
    """Bit for bit against the CPU path on all peaks, sparse and dense, all scale bytes; error in float64."""
    from k3repro.mxfp4 import decode, pack_nibbles, requantise, unpack_uint4b8
    from k3repro.mxfp4.kernels import launch, mend

    rng = np.random.default_rng()
    n = 253 * 2048
    codes = np.minimum(rng.integers(0, 8, (n, 32)), rng.integers(0, 8, (n, 1)))
    codes = np.where(rng.random((n, 32)) < rng.random((n, 1)) * 1.3, codes, 0) | (
        rng.integers(0, 2, (n, 32)) << 3
    )
    packed = pack_nibbles(codes.astype(np.uint8))
    scales = (np.arange(n) % 253).astype(np.uint8)[:, None]
    words, bits = requantise(packed, scales, rule)
    device_packed, device_scales = torch.from_numpy(packed).cuda(), torch.from_numpy(scales).cuda()
    got, got_bits = launch(device_packed, device_scales, rule)
    mended = mend(device_packed, device_scales, got, got_bits, rule)
    got, got_bits = got.cpu().numpy().view(np.uint32), got_bits.cpu().numpy().view(np.uint16)
    weights = decode(packed, scales).astype(np.float64)
    factor = (got_bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    left = weights - unpack_uint4b8(got).astype(np.float64) * factor
    middle = (scales[:, 0] > 110) & (scales[:, 0] < 145)
    return {
        "rule": rule,
        "blocks": n,
        "words_that_differ": int((got != words).any(axis=1).sum()),
        "scales_that_differ": int((got_bits != bits).sum()),
        "mended": mended,
        "relative_rms": float(np.linalg.norm(left[middle]) / np.linalg.norm(weights[middle])),
    }


def _bench(triton: Any, function: Any) -> tuple[float, float, float]:
    """Median, fifth and ninety-fifth percentile of the time in seconds."""
    low, middle, high = triton.testing.do_bench(function, warmup=100, rep=400, quantiles=[0.05, 0.5, 0.95])
    return middle / 1e3, low / 1e3, high / 1e3


def _row(
    what: str, rule: str, source: str, blocks: int, seconds: tuple[float, float, float]
) -> dict[str, Any]:
    return {
        "what": what,
        "rule": rule,
        "source": source,
        "blocks": blocks,
        "log": _log(),
        "seconds": seconds[0],
        "seconds_low": seconds[1],
        "seconds_high": seconds[2],
        "gb_per_s": blocks * BYTES_PER_BLOCK / seconds[0] / 1e9,
        "input_gb_per_s": blocks * INPUT_BYTES_PER_BLOCK / seconds[0] / 1e9,
    }


def _copy(torch: Any, triton: Any, blocks: int) -> list[dict[str, Any]]:
    half = blocks * BYTES_PER_BLOCK // 2 // 16 * 16
    source = torch.randint(0, 256, (half,), dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    rows = []
    for _ in range(2):  # twice: the difference is the noise of everything below
        rows.append(_row("copy", "", "", blocks, _bench(triton, lambda: target.copy_(source))))
    return rows


def _torch_conversion(torch: Any, triton: Any, blocks: int) -> list[dict[str, Any]]:
    """The load-time rule in plain torch: table, bfloat16 arithmetic, pack."""
    packed, scales = _inputs(torch, blocks // 112 * 112, "uniform")
    table = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], device="cuda")

    def convert() -> Any:
        codes = torch.stack([packed & 15, packed >> 4], dim=-1).view(-1, 32).long()
        factor = torch.exp2(scales.view(-1, 1).float() - 127)
        weights = (table[codes] * factor).to(torch.bfloat16)
        scale = weights.abs().amax(dim=-1, keepdim=True).clamp(min=1e-6) / 7.0
        int4 = (weights / scale).round().clamp(-7, 7).to(torch.int32) + 8
        shifts = torch.arange(0, 32, 4, device="cuda", dtype=torch.int32)
        return (int4.view(-1, 8) << shifts).sum(dim=-1, dtype=torch.int32), scale

    return [_row("torch", "amax7", "uniform", scales.numel(), _bench(triton, convert))]


def _kernel(
    torch: Any, triton: Any, packed: Any, scales: Any, rule: Any, source: str
) -> list[dict[str, Any]]:
    from k3repro.mxfp4.kernels import launch

    rows = []
    for warps in (2, 4, 8):
        seconds = _bench(triton, lambda warps=warps: launch(packed, scales, rule, warps=warps))
        rows.append(_row("kernel", rule, source, scales.numel(), seconds) | {"warps": warps})
    return rows


def _code(rule: Any) -> dict[str, Any]:
    """Registers, spills and the census of the machine code of the kernel for this device, and for gfx942."""
    from k3repro.mxfp4.kernels import compile_ahead

    compiled = compile_ahead(rule, "cuda", 90)
    entry: dict[str, Any] = {"rule": rule, "shared_bytes": compiled.metadata.shared, "census": {}}
    try:
        from triton.tools.disasm import get_sass

        listing = get_sass(compiled.asm["cubin"])
        found = re.findall(r"^\S+\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9]+)", listing, re.M)
        entry["census"] = {name: found.count(name) for name in sorted(set(found))}
    except Exception as error:
        entry["census_error"] = repr(error)[:200]
    other = compile_ahead(rule, "hip", "gfx942")
    text = other.asm["amdgcn"]
    entry["gfx942"] = {
        "hsaco_bytes": len(other.asm["hsaco"]),
        "vgpr": int(re.search(r"\.vgpr_count:\s+(\d+)", text)[1]),
        "vgpr_spills": int(re.search(r"\.vgpr_spill_count:\s+(\d+)", text)[1]),
        "vector_instructions": len(re.findall(r"^\s+v_", text, re.M)),
    }
    return entry


def table(result: dict[str, Any]) -> str:
    """The one table at the end."""
    lines = ["what    rule   source    warps   GB/s   of copy   MXFP4 in GB/s"]
    for t in result["timings"]:
        lines.append(
            f"{t['what']:<7} {t['rule']:<6} {t['source']:<9} {t.get('warps', ''):>5} {t['gb_per_s']:>7.0f}"
            f" {t['of_copy']:>8.1%} {t['input_gb_per_s']:>10.0f}"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, help="measure here and write the result")
    parser.add_argument("--seal", type=Path, help="seal a result as a measured artifact")
    parser.add_argument("--blocks", type=int, default=112 << 20, help="blocks of 32 weights to convert")
    arguments = parser.parse_args()
    if arguments.seal:
        from k3repro.mxfp4.device_record import seal_kernel_result
        from k3repro.store import Store

        artifact = seal_kernel_result(Store(), json.loads(arguments.seal.read_text()))
        print(f"{artifact.name}@{artifact.subject} {artifact.tier} {artifact.seal}")
        return
    result = measure(arguments.blocks)
    if arguments.out:
        arguments.out.write_text(json.dumps(result, indent=1, sort_keys=True))
    print(json.dumps(result["checks"]), json.dumps(result["code"]), sep="\n")
    print(table(result))
    wrong = sum(check["words_that_differ"] + check["scales_that_differ"] for check in result["checks"])
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
