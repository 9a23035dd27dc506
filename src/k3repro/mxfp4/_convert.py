"""One shard: read a tensor, convert or copy it, write it, and read back what was written."""

from __future__ import annotations

import errno
import math
import zlib
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from k3repro.errors import InputError, MachineError
from k3repro.mxfp4._bf16 import bf16_values
from k3repro.mxfp4._fast import requantise
from k3repro.mxfp4._format import BLOCK, E2M1_VALUES, Bytes, unpack_nibbles
from k3repro.mxfp4._layouts import unpack_uint4b8
from k3repro.mxfp4._plan import Conversion, RequantPlan, ShardPlan
from k3repro.mxfp4.checkpoint import ShardReader, ShardWriter, TensorInfo, read_header

Progress = Callable[[int], None]

_COPY_BYTES = 16 << 20


def convert_shard(
    plan: RequantPlan, shard: ShardPlan, folder: Path, error_blocks: int, progress: Progress
) -> list[Any]:
    """Write one shard into `folder`, verify it, and return one row per converted tensor.

    `progress` is called with source bytes done. Memory: one tensor and its result.

    Raises:
        InputError: a tensor that cannot be converted (NaN scales, a file that ends early).
        MachineError: the disk is full, or what was read back is not what was written.
    """
    path = folder / shard.header.path.name
    checksums: dict[str, int] = {}
    rows: list[Any] = []
    where = path.name
    try:
        with ExitStack() as stack:
            readers = _open_readers(stack, shard)
            source = readers[shard.header.path]
            writer = stack.enter_context(ShardWriter(path, shard.outputs, dict(shard.header.metadata)))
            for step in shard.steps:
                where = f"{path.name}: {step.name}"
                if isinstance(step, Conversion):
                    rows.append(_convert(plan, step, source, readers, writer, checksums, error_blocks))
                    progress(step.packed.nbytes + step.scale.nbytes)
                else:
                    _copy(step, source, writer, checksums)
                    progress(step.nbytes)
    except OSError as error:
        raise _disk_error(error, where) from None
    _verify(path, shard, checksums)
    return rows


def _open_readers(stack: ExitStack, shard: ShardPlan) -> dict[Path, ShardReader]:
    headers = {shard.header.path: shard.header}
    for step in shard.steps:
        if isinstance(step, Conversion):
            headers[step.scale_shard.path] = step.scale_shard
    return {path: stack.enter_context(ShardReader(header)) for path, header in headers.items()}


def _disk_error(error: OSError, where: str) -> MachineError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return MachineError("no space is left on the disk", where=where, fix="Free some, then run it again.")
    return MachineError(f"cannot be written or read ({error.strerror})", where=where)


def _convert(
    plan: RequantPlan,
    step: Conversion,
    source: ShardReader,
    readers: dict[Path, ShardReader],
    writer: ShardWriter,
    checksums: dict[str, int],
    error_blocks: int,
) -> dict[str, Any]:
    shard = writer.path.name
    packed = source.read(step.packed.name)
    scales = readers[step.scale_shard.path].read(step.scale.name)
    packed = packed.reshape(*step.shape[:-1], step.shape[-1] // 2)
    scales = scales.reshape(*step.shape[:-1], step.shape[-1] // BLOCK)
    words, bits = requantise(packed, scales, plan.rule, where=step.where)
    row = _row(step, shard, _sampled(packed, scales, words, bits, error_blocks))
    parts: list[npt.NDArray[Any]] = [words, bits, np.array(step.shape, dtype="<i8")]
    for (name, _, _), part in zip(step.outputs(), parts, strict=True):
        checksums[name] = zlib.crc32(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
        writer.write(part)
    return row


def _row(step: Conversion, shard: str, sample: dict[str, Any]) -> dict[str, Any]:
    weights = math.prod(step.shape)
    return {
        "tensor": step.name,
        "shard": shard,
        "rows": math.prod(step.shape[:-1]),
        "columns": step.shape[-1],
        "weights": weights,
        "source_bytes": step.packed.nbytes + step.scale.nbytes,
        "int4_bytes": weights // 2 + weights // BLOCK * 2,
        **sample,
    }


def _sampled(
    packed: Bytes, scales: Bytes, words: npt.NDArray[Any], bits: npt.NDArray[Any], most: int
) -> dict[str, Any]:
    """Error of evenly spaced blocks, decoded from source and result alike; all blocks where there are few."""
    blocks = scales.size
    if not most or not blocks:
        return {"error_blocks": 0, "error_energy": 0.0, "weight_energy": 0.0}
    index = np.arange(0, blocks, max(1, -(-blocks // most)))
    # in float64, because scale byte 254 takes the larger values past float32
    values = E2M1_VALUES[unpack_nibbles(packed.reshape(-1, 16)[index])].astype(np.float64)
    weights = np.ldexp(values, scales.reshape(-1, 1)[index].astype(np.int32) - 127)
    factors = bf16_values(bits.reshape(-1, 1)[index]).astype(np.float64)
    left = weights - unpack_uint4b8(words.reshape(-1, 4)[index]) * factors
    return {
        "error_blocks": len(index),
        "error_energy": float((left * left).sum()),
        "weight_energy": float((weights * weights).sum()),
    }


def _copy(info: TensorInfo, reader: ShardReader, writer: ShardWriter, checksums: dict[str, int]) -> None:
    checksum = 0
    for piece in reader.pieces(info.name, _COPY_BYTES):
        checksum = zlib.crc32(piece.data, checksum)
        writer.write(piece)
    checksums[info.name] = checksum


def _verify(path: Path, shard: ShardPlan, checksums: dict[str, int]) -> None:
    """Read the finished file back: the header as planned, every tensor's bytes as written."""
    try:
        header = read_header(path)
        found = [(t.name, t.dtype, t.shape) for t in header.tensors.values()]
        if sorted(found) != sorted(shard.outputs):
            raise InputError("its header is not the planned one", where=path.name)
        with ShardReader(header) as reader:
            for name, expected in checksums.items():
                checksum = 0
                for piece in reader.pieces(name, _COPY_BYTES):
                    checksum = zlib.crc32(piece.data, checksum)
                if checksum != expected:
                    raise InputError(
                        "read back, it differs from what was written", where=f"{path.name}: {name}"
                    )
    except InputError as error:
        path.unlink(missing_ok=True)
        raise MachineError(
            f"verification failed: {error.what}", where=error.where, fix="Check the disk, then run it again."
        ) from None
