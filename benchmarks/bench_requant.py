"""The CPU path of the conversion beside a memory copy of the same bytes, and the command beside a file copy.

    python benchmarks/bench_requant.py [--megabytes 256]

One thread, processor time, best of several. MXFP4 input is 17 bytes a block of 32 weights; the bars are 1.0
GB/s for `amax7` and 0.1 GB/s for `mse`.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from k3repro.mxfp4 import encode, plan_requant, requant, requantise, requantise_reference
from k3repro.mxfp4.checkpoint import ShardWriter

BARS = {"amax7": 1.0, "mse": 0.1}
CONFIG = '{"model_type": "bench", "quantization_config": {"quant_method": "compressed-tensors"}}'


def best(function: Callable[[], object], clock: Callable[[], float], repeats: int) -> float:
    """Shortest time of several; the others waited for something."""
    times = []
    for _ in range(repeats):
        start = clock()
        function()
        times.append(clock() - start)
    return min(times)


def inputs(blocks: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(0)
    part = encode(rng.standard_normal((blocks // 112 // 8, 3584)))
    gaussian = tuple(np.ascontiguousarray(np.tile(a, (8, 1))) for a in part)
    uniform = rng.integers(0, 256, gaussian[0].shape, dtype=np.uint8)
    return {"gaussian": gaussian, "uniform": (uniform, gaussian[1])}  # type: ignore[dict-item]


def conversions(blocks: int) -> list[str]:
    lines = []
    for source, (packed, scales) in inputs(blocks).items():
        size = packed.nbytes + scales.nbytes
        spare = np.empty_like(packed)
        copy = best(lambda s=spare, p=packed: np.copyto(s, p), time.process_time, 9) * size / packed.nbytes
        few = max(1, len(packed) // 64)
        for rule, bar in BARS.items():
            fast = best(lambda p=packed, s=scales, r=rule: requantise(p, s, r), time.process_time, 7)
            part = (packed[:few], scales[:few], rule)
            slow = best(lambda a=part: requantise_reference(*a), time.process_time, 2) * len(packed) / few
            rate = size / fast / 1e9
            lines.append(
                f"{rule:<6} {source:<9} {rate:>7.2f} {bar:>5.1f} {'met' if rate >= bar else 'MISSED':<7}"
                f" {copy / fast:>8.1%} {slow / fast:>10.0f}x"
            )
    return lines


def command(blocks: int) -> str:
    """`requant` of one shard against copying the file, wall time, both synced."""
    packed, scales = inputs(blocks)["gaussian"]
    with tempfile.TemporaryDirectory() as place:
        source = Path(place) / "src"
        source.mkdir()
        (source / "config.json").write_text(CONFIG)
        rows = range(0, len(packed) // 3072 * 3072, 3072)  # tensors of the size of an expert's
        parts = [(f"e.{i}", packed[i : i + 3072], scales[i : i + 3072]) for i in rows]
        shapes = [
            (f"{name}.weight_{part}", "U8", array.shape)
            for name, *arrays in parts
            for part, array in zip(("packed", "scale"), arrays, strict=True)
        ]
        with ShardWriter(source / "model.safetensors", shapes) as writer:
            for _, codes, factors in parts:
                writer.write(codes)
                writer.write(factors)
        size = (source / "model.safetensors").stat().st_size
        start, busy = time.perf_counter(), time.process_time()
        requant(plan_requant(source), Path(place) / "out")
        took, busy = time.perf_counter() - start, time.process_time() - busy
        start = time.perf_counter()
        shutil.copyfile(source / "model.safetensors", Path(place) / "copy")
        with (Path(place) / "copy").open("rb+") as stream:
            os.fsync(stream.fileno())
        copy = time.perf_counter() - start
    rates = [f"{size / seconds / 1e9:.2f} GB/s" for seconds in (took, busy, copy)]
    return f"requant amax7, whole command {rates[0]} ({rates[1]} of processor time); copy and sync {rates[2]}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", type=int, default=128, help="MXFP4 input")
    blocks = parser.parse_args().megabytes * 10**6 // 17
    print(command(blocks))
    print("rule   weights   GB/s in   bar met?      of copy  over reference")
    print("\n".join(conversions(blocks)))


if __name__ == "__main__":
    main()
