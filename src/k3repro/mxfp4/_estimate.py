"""What a conversion will take: its first tensors converted on the disks and cores that will do it."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from k3repro.errors import MachineError
from k3repro.mxfp4._convert import convert_shard
from k3repro.mxfp4._plan import Conversion, RequantPlan, ShardPlan

SAMPLE_BYTES = 128 << 20
_JOB_BYTES = 256 << 20  # a process takes half a second to start


def usable_cores() -> int:
    """Cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def worthwhile_jobs(plan: RequantPlan) -> int:
    """Shards to convert at once: one per usable core, fewer where shards or bytes are few."""
    return max(1, min(usable_cores(), len(plan.shards), plan.source_bytes // _JOB_BYTES))


def estimate_requant(plan: RequantPlan, target: Path, jobs: int, error_blocks: int) -> dict[str, Any]:
    """Time, space and cores of the whole conversion, from one sample beside `target` that is then removed.

    `processor_s`: CPU seconds, every byte charged what a converted one took. `disk_s`: what the disk of
    `target` needs for the result, from writing and syncing the sample's own bytes. `wall_s`: the longer of
    that and the processor time over the cores, since reading, converting and writing overlap.

    Raises:
        MachineError: no space for the sample, or it cannot be written.
    """
    place = next(path for path in target.absolute().parents if path.is_dir())
    sample = _sample(plan)
    with tempfile.TemporaryDirectory(dir=place, prefix=".k3repro-estimate-") as folder:
        busy = time.process_time()
        convert_shard(plan, sample, Path(folder), error_blocks, lambda _: None)
        busy = time.process_time() - busy
        sync_s = _write_and_sync(Path(folder) / sample.header.path.name)
    cores = min(jobs, usable_cores())
    processor_s = busy * plan.source_bytes / sample.source_bytes
    disk_s = sync_s * plan.output_bytes / sample.output_bytes
    return {
        "sample_bytes": sample.source_bytes,
        "processor_s": round(processor_s, 1),
        "jobs": jobs,
        "cores": cores,
        "disk_s": round(disk_s, 1),
        "wall_s": round(max(processor_s / cores, disk_s), 1),
        "free_bytes": shutil.disk_usage(place).free,
    }


def _sample(plan: RequantPlan) -> ShardPlan:
    """The first converted tensors of the shard that has most of them, about `SAMPLE_BYTES`."""
    shard = max(plan.shards, key=lambda shard: sum(isinstance(step, Conversion) for step in shard.steps))
    steps: list[Conversion] = []
    size = 0
    for step in shard.steps:
        if isinstance(step, Conversion) and size < SAMPLE_BYTES:
            steps.append(step)
            size += step.packed.nbytes + step.scale.nbytes
    outputs = tuple(output for step in steps for output in step.outputs())
    return replace(shard, steps=tuple(steps), outputs=outputs)


def _write_and_sync(path: Path) -> float:
    """Seconds to write the sample's bytes anew and sync them."""
    data = path.read_bytes()
    try:
        begin = time.perf_counter()
        with path.with_suffix(".again").open("wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        return time.perf_counter() - begin
    except OSError as error:
        raise MachineError(f"cannot be written ({error.strerror})", where=str(path.parent)) from None
