"""`requant`: a whole checkpoint, shard by shard, resumable, under its final name only when complete."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from k3repro.errors import InputError, MachineError, UsageError
from k3repro.mxfp4._convert import convert_shard
from k3repro.mxfp4._plan import CONFIG_NAME, RequantPlan, ShardPlan
from k3repro.mxfp4.checkpoint import read_header, sync_directory
from k3repro.shards import INDEX, tensor_bytes

STATE_FOLDER = ".k3repro-requant"
ERROR_BLOCKS = 2048
_SPARE_BYTES = 64 << 20


def partial_path(target: Path) -> Path:
    """Where a conversion grows until it is complete."""
    return target.with_name(f"{target.name}.partial")


def requant(
    plan: RequantPlan,
    target: Path,
    *,
    jobs: int = 1,
    error_blocks: int = ERROR_BLOCKS,
    progress: Callable[[int], None] = lambda _: None,
) -> dict[str, Any]:
    """Convert `plan.source` into the new directory `target`; returns the report.

    Work grows in `TARGET.partial`; finished shards there are kept and found again by the next run of the same
    conversion. Memory: below 100 MB a job, and the scales of a tensor (`convert_shard`).

    Raises:
        UsageError: `target` exists, or its `.partial` belongs to another conversion.
        InputError: a tensor that cannot be converted; shard and tensor are named.
        MachineError: no space, or what was read back is not what was written.
    """
    if _only_uncleaned(plan, target):
        shutil.rmtree(target / STATE_FOLDER)
        report: dict[str, Any] = json.loads((target / "requant-report.json").read_bytes())
        return report
    if os.path.lexists(target):
        raise UsageError(
            "is already there and will not be overwritten", where=str(target), fix="Name another."
        )
    folder = partial_path(target)
    with _only_one(folder):
        return _run(plan, folder, target, jobs, error_blocks, progress)


def _only_uncleaned(plan: RequantPlan, target: Path) -> bool:
    """Whether `target` is this very conversion, complete, killed before it removed its own state."""
    try:
        known = json.loads((target / STATE_FOLDER / "plan.json").read_bytes())
        return bool(known["fingerprint"] == plan.fingerprint)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _lock_path(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.lock")


@contextmanager
def _only_one(folder: Path) -> Iterator[None]:
    """Hold a lock beside the work folder: two processes converting into one folder would mix their shards."""
    lock = _lock_path(folder)
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise MachineError(f"cannot be created ({error.strerror})", where=str(lock)) from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise UsageError("another process is writing it", where=str(folder), fix="Wait for it.") from None
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
        os.close(descriptor)


def _run(
    plan: RequantPlan,
    folder: Path,
    target: Path,
    jobs: int,
    error_blocks: int,
    progress: Callable[[int], None],
) -> dict[str, Any]:
    resumed = _claim(plan, folder)
    todo = [shard for shard in plan.shards if shard.header.path.name not in resumed]
    _check_space(folder, sum(shard.output_bytes for shard in todo))
    for shard in plan.shards:
        if shard not in todo:
            progress(shard.source_bytes)
    rows = [row for done in resumed.values() for row in done]
    rows += _convert_all(plan, todo, folder, jobs, error_blocks, progress)
    report = _report(plan, rows, len(resumed))
    _finish(plan, folder, target, report)
    return report


def _convert_all(
    plan: RequantPlan,
    todo: list[ShardPlan],
    folder: Path,
    jobs: int,
    error_blocks: int,
    progress: Callable[[int], None],
) -> list[Any]:
    rows: list[Any] = []
    if jobs <= 1 or len(todo) < 2:
        for shard in todo:
            rows += _one(plan, shard, folder, error_blocks, progress)
        return rows
    with ProcessPoolExecutor(min(jobs, len(todo)), mp_context=get_context("spawn")) as pool:
        futures = {pool.submit(_one, plan, shard, folder, error_blocks): shard for shard in todo}
        try:
            for future in as_completed(futures):
                rows += future.result()
                progress(futures[future].source_bytes)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return rows


def _one(
    plan: RequantPlan,
    shard: ShardPlan,
    folder: Path,
    error_blocks: int,
    progress: Callable[[int], None] | None = None,
) -> list[Any]:
    done = convert_shard(plan, shard, folder, error_blocks, progress or (lambda _: None))
    _write_json(folder / STATE_FOLDER / f"{shard.header.path.name}.json", done)
    return done


def _claim(plan: RequantPlan, folder: Path) -> dict[str, Any]:
    """Create the work folder or take over an interrupted one; which shards are complete, with their rows."""
    state = folder / STATE_FOLDER
    fingerprint = state / "plan.json"
    try:
        state.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MachineError(f"cannot be created ({error.strerror})", where=str(folder)) from None
    if not fingerprint.exists() and not any(path.is_file() for path in folder.rglob("*")):
        _write_json(fingerprint, {"fingerprint": plan.fingerprint})  # killed before it began
    known = json.loads(fingerprint.read_bytes()) if fingerprint.exists() else {}
    if known.get("fingerprint") != plan.fingerprint:
        raise UsageError(
            "holds another conversion (other source, rule or format)",
            where=str(folder),
            fix="Delete it or name another destination.",
        )
    return {
        shard.header.path.name: rows
        for shard in plan.shards
        if (rows := _complete(shard, folder)) is not None
    }


def _complete(shard: ShardPlan, folder: Path) -> list[Any] | None:
    record = folder / STATE_FOLDER / f"{shard.header.path.name}.json"
    try:
        rows: list[Any] = json.loads(record.read_bytes())
        header = read_header(folder / shard.header.path.name)
    except (OSError, ValueError, InputError):
        return None
    found = [(t.name, t.dtype, t.shape) for t in header.tensors.values()]
    return rows if sorted(found) == sorted(shard.outputs) else None


def _check_space(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < needed + _SPARE_BYTES:
        raise MachineError(
            f"{needed / 1e9:.2f} GB are still to be written, {free / 1e9:.2f} GB are free",
            where=str(folder),
            fix="Free some space or name another destination.",
        )


def _report(plan: RequantPlan, rows: list[Any], resumed: int) -> dict[str, Any]:
    rows = sorted(rows, key=lambda row: row["tensor"])
    for row in rows:
        energy = row["weight_energy"]
        row["relative_rms"] = (row["error_energy"] / energy) ** 0.5 if energy else None
    weights = sum(row["weights"] for row in rows)
    int4 = sum(row["int4_bytes"] for row in rows)
    energy = sum(row["weight_energy"] for row in rows)
    return {
        "rule": plan.rule,
        "format": "uint4b8",
        "source_fingerprint": plan.fingerprint,
        "shards": len(plan.shards),
        "resumed_shards": resumed,
        "tensors": rows,
        "converted_tensors": len(rows),
        "converted_weights": weights,
        "mxfp4_bytes": sum(row["source_bytes"] for row in rows),
        "int4_bytes": int4,
        "int4_bits_per_weight": 8 * int4 / weights if weights else None,
        "checkpoint_bytes": plan.output_bytes,
        "copied_bytes": plan.output_bytes - _converted_bytes(plan),
        "relative_rms": (sum(row["error_energy"] for row in rows) / energy) ** 0.5 if energy else None,
        "error_blocks": sum(row["error_blocks"] for row in rows),
    }


def _converted_bytes(plan: RequantPlan) -> int:
    outputs = [output for step in plan.conversions for output in step.outputs()]
    return sum(tensor_bytes(dtype, shape) for _, dtype, shape in outputs)


def _finish(plan: RequantPlan, folder: Path, target: Path, report: Mapping[str, Any]) -> None:
    """Everything but the shards, then the final name."""
    try:
        if plan.indexed:
            names = {name: s.header.path.name for s in plan.shards for name, _, _ in s.outputs}
            known = json.loads((plan.source / INDEX).read_bytes()).get("metadata") or {}
            metadata = {**known, "total_size": plan.output_bytes}
            index = {"metadata": metadata, "weight_map": dict(sorted(names.items()))}
            _write_json(folder / INDEX, index)
        _write_json(folder / CONFIG_NAME, plan.config)
        _write_json(folder / "requant-report.json", report)
        skip = {CONFIG_NAME, INDEX, "requant-report.json"}
        for path in sorted(plan.source.iterdir()):
            # our own lock lies there when the result grows inside its source
            ours = path == _lock_path(folder)
            if path.is_file() and path.suffix != ".safetensors" and path.name not in skip and not ours:
                shutil.copyfile(path, folder / path.name)
        sync_directory(folder)
        folder.rename(target)
        sync_directory(target.parent)
        shutil.rmtree(target / STATE_FOLDER)
    except OSError as error:
        raise MachineError(
            f"cannot be written ({error.strerror})", where=str(error.filename or folder)
        ) from None


def _write_json(path: Path, value: Any) -> None:
    """Write and fsync under a temporary name, then rename: complete or absent."""
    temporary = path.with_name(f".{path.name}.partial")
    with temporary.open("w") as stream:
        json.dump(value, stream, indent=2)
        stream.write("\n")
        stream.flush()
        os.fsync(stream.fileno())
    temporary.rename(path)
