"""The CPU path of the conversion beside a memory copy of the same bytes, and the command beside a file copy.

    python benchmarks/bench_requant.py [--megabytes 256]

The command runs a job a core and takes turns with copy and sync of the same files. The rules run on one
thread: processor time, best of several. MXFP4 input is 17 bytes a block of 32 weights; the bars are 0.8 of
copy and sync for the command, 1.0 GB/s for `amax7` and 0.1 GB/s for `mse`.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from _figures import figure

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
            figure(f"{rule}, {source}, a thread", rate, "GB/s", least=bar)
            lines.append(f"{rule:<6} {source:<9} {copy / fast:>8.1%} {slow / fast:>10.0f}x")
    return lines


SHARDS = 4


def source_checkpoint(folder: Path, blocks: int) -> None:
    """`SHARDS` shards of tensors of the size of an expert's."""
    packed, scales = inputs(blocks // SHARDS)["gaussian"]
    (folder / "config.json").write_text(CONFIG)
    names: dict[str, str] = {}
    for shard in range(SHARDS):
        rows = range(0, len(packed) // 3072 * 3072, 3072)
        parts = [(f"e.{shard}.{i}", packed[i : i + 3072], scales[i : i + 3072]) for i in rows]
        shapes = [
            (f"{name}.weight_{part}", "U8", array.shape)
            for name, *arrays in parts
            for part, array in zip(("packed", "scale"), arrays, strict=True)
        ]
        file = f"model-{shard + 1:05d}-of-{SHARDS:05d}.safetensors"
        with ShardWriter(folder / file, shapes) as writer:
            for _, codes, factors in parts:
                writer.write(codes)
                writer.write(factors)
        names |= {name: file for name, _, _ in shapes}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": names}))


def processor_s() -> float:
    """CPU seconds of this process and of those it waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def command(blocks: int, repeats: int) -> None:
    """`requant` of a checkpoint against copying its files, wall time, both synced, in turns."""
    cores = len(os.sched_getaffinity(0))
    took, busy, copied = [], [], []
    with tempfile.TemporaryDirectory() as place:
        source, out = Path(place) / "src", Path(place) / "out"
        source.mkdir()
        source_checkpoint(source, blocks)
        files = sorted(source.glob("*.safetensors"))
        size = sum(path.stat().st_size for path in files)
        for _ in range(repeats):
            start, used = time.perf_counter(), processor_s()
            requant(plan_requant(source), out, jobs=cores)
            took.append(time.perf_counter() - start)
            busy.append(processor_s() - used)
            shutil.rmtree(out)
            start = time.perf_counter()
            out.mkdir()
            for path in files:
                shutil.copyfile(path, out / path.name)
                with (out / path.name).open("rb+") as stream:
                    os.fsync(stream.fileno())
            copied.append(time.perf_counter() - start)
            shutil.rmtree(out)
    print(f"{SHARDS} shards of {size / SHARDS / 1e6:.0f} MB, {cores} jobs")
    ratio = statistics.median(c / t for c, t in zip(copied, took, strict=True))
    rates = [size / statistics.median(seconds) / 1e9 for seconds in (took, busy, copied)]
    figure("requant amax7, whole command", rates[0], "GB/s", ratio=ratio, of="copy and sync", least=0.8)
    figure(
        "its processor time on all cores",
        cores * rates[1],
        "GB/s",
        ratio=cores * rates[1] / rates[2],
        of="copy and sync",
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--megabytes",
        type=int,
        default=128,
        help="MXFP4 input of a rule; the command gets four times as much",
    )
    parser.add_argument("--repeats", type=int, default=3, help="turns of command and copy")
    options = parser.parse_args()
    blocks = options.megabytes * 10**6 // 17
    command(4 * blocks, options.repeats)
    lines = conversions(blocks)
    print("rule   weights    of copy  over reference", *lines, sep="\n")


if __name__ == "__main__":
    main()
