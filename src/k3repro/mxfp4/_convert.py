"""One shard: read a tensor piece by piece, convert or copy it, hand it to the writer."""

from __future__ import annotations

import errno
import math
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from k3repro.errors import MachineError
from k3repro.mxfp4._bf16 import bf16_values
from k3repro.mxfp4._fast import requantise
from k3repro.mxfp4._format import BLOCK, E2M1_VALUES, unpack_nibbles
from k3repro.mxfp4._plan import Conversion, RequantPlan, ShardPlan
from k3repro.mxfp4._rules import check_scales
from k3repro.mxfp4.checkpoint import ShardReader, ShardWriter

Progress = Callable[[int], None]


def convert_shard(
    plan: RequantPlan, shard: ShardPlan, folder: Path, error_blocks: int, progress: Progress
) -> list[Any]:
    """Write one shard into `folder`, read back and equal, and return one row per converted tensor.

    `progress` is called with source bytes done. Memory: a tensor's scales, a few pieces of 4 MiB and what the
    writer holds until it is read back.

    Raises:
        InputError: a tensor that cannot be converted (NaN scales, a file that ends early).
        MachineError: the disk is full, or what was read back is not what was written.
    """
    path = folder / shard.header.path.name
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
                    rows.append(_convert(plan, step, source, readers, writer, error_blocks))
                    progress(step.packed.nbytes + step.scale.nbytes)
                else:
                    for piece in source.pieces(step.name):
                        writer.write(piece)
                    progress(step.nbytes)
    except OSError as error:
        raise _disk_error(error, where) from None
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
    error_blocks: int,
) -> dict[str, Any]:
    scales = readers[step.scale_shard.path].read(step.scale.name)
    shape = (*step.shape[:-1], step.shape[-1] // BLOCK)
    check_scales(
        np.broadcast_to(_NO_BYTE, (*step.shape[:-1], step.shape[-1] // 2)), scales.reshape(shape), step.where
    )
    bits = np.empty((scales.size, 1), dtype=np.uint16)
    sample = _Sample(scales.size, error_blocks)
    done = 0
    for piece in source.pieces(step.packed.name):
        packed = piece.reshape(-1, BLOCK // 2)
        part = slice(done, done := done + len(packed))
        words, bits[part] = requantise(packed, scales[part, None], plan.rule, where=step.where)
        sample.take(packed, scales[part], words, bits[part, 0])
        writer.write(words)
    writer.write(bits)
    writer.write(np.array(step.shape, dtype="<i8"))
    weights = math.prod(step.shape)
    return {
        "tensor": step.name,
        "shard": writer.path.name,
        "rows": math.prod(step.shape[:-1]),
        "columns": step.shape[-1],
        "weights": weights,
        "source_bytes": step.packed.nbytes + step.scale.nbytes,
        "int4_bytes": weights // 2 + weights // BLOCK * 2,
        **sample.errors(),
    }


class _Sample:
    """Evenly spaced blocks of a tensor, at most `most`, kept to tell the error; all where there are few."""

    def __init__(self, blocks: int, most: int) -> None:
        self.every = max(1, -(-blocks // most)) if most else 0
        self.begin = 0
        self.kept: list[tuple[npt.NDArray[Any], ...]] = []

    def take(self, *arrays: npt.NDArray[Any]) -> None:
        """Packed codes [n, 16], scales [n], words [n, 4] and scale bits [n] of the next n blocks."""
        if self.every:
            first = -self.begin % self.every
            self.kept.append(tuple(array[first :: self.every].copy() for array in arrays))
        self.begin += len(arrays[0])

    def errors(self) -> dict[str, Any]:
        """Sums of squares over the blocks, decoded from source and result alike."""
        if not self.kept:
            return {"error_blocks": 0, "error_energy": 0.0, "weight_energy": 0.0}
        packed, scales, words, bits = (np.concatenate(parts) for parts in zip(*self.kept, strict=True))
        # in float64, because scale byte 254 takes the larger values past float32
        weights = _E2M1_PAIRS[packed].reshape(-1, BLOCK)
        weights *= np.ldexp(1.0, scales.astype(np.int32) - 127)[:, None]
        left = _INT4_PAIRS[words.view(np.uint8)].reshape(-1, BLOCK)
        left *= bf16_values(bits).astype(np.float64)[:, None]
        left -= weights
        return {
            "error_blocks": len(packed),
            "error_energy": float((left * left).sum()),
            "weight_energy": float((weights * weights).sum()),
        }


_BYTES = np.arange(256, dtype=np.uint8)[:, None]
_E2M1_PAIRS = E2M1_VALUES[unpack_nibbles(_BYTES)].astype(np.float64)  # the two values of each byte
_INT4_PAIRS = unpack_nibbles(_BYTES).astype(np.float64) - 8
_NO_BYTE = np.uint8(0)
