"""Checkpoints read and written one tensor at a time, on top of the headers that `k3repro.shards` checks.

The reader names tensor and shard in every complaint and never maps a whole shard; the writer streams tensors
whose sizes are known before their bytes are.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from k3repro import shards
from k3repro.errors import InputError, MachineError
from k3repro.shards import INDEX, SINGLE, header_bytes, tensor_bytes

__all__ = [
    "CheckpointFiles",
    "PlacedHeader",
    "ShardReader",
    "ShardWriter",
    "TensorInfo",
    "open_checkpoint",
    "read_header",
    "sync_directory",
]

Bytes = npt.NDArray[np.uint8]

PIECE_BYTES = 4 << 20
_COMPARED_BYTES = 1 << 18
WINDOW_BYTES = 32 << 20  # written before they are synced and read back; they stay in memory until then


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One tensor of a shard: offsets count from the start of the byte buffer."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int

    @property
    def nbytes(self) -> int:
        """Bytes on disk."""
        return self.end - self.begin


@dataclass(frozen=True, slots=True)
class PlacedHeader:
    """A shard's header and where its buffer begins; `tensors` in the order of their bytes."""

    path: Path
    tensors: Mapping[str, TensorInfo]
    metadata: Mapping[str, str]
    data_start: int


def read_header(path: Path) -> PlacedHeader:
    """The header of a safetensors file with its tensors' places.

    Raises:
        InputError: not a safetensors file, one that ends early, or a fixture without its buffer.
    """
    return _placed(path, shards.read_header(path))


def _placed(path: Path, header: shards.ShardHeader) -> PlacedHeader:
    if header.header_only:
        raise InputError("a fixture of headers holds no weights", where=str(path))
    tensors, begin = {}, 0
    for name, dtype, shape, size in header.entries:
        tensors[name] = TensorInfo(name, dtype, shape, begin, begin + size)
        begin += size
    return PlacedHeader(path, tensors, header.metadata, 8 + header.header_bytes)


class ShardReader:
    """Reads tensors of one shard into memory one at a time. Use as a context manager."""

    def __init__(self, header: PlacedHeader) -> None:
        self.header = header
        self._stream: BinaryIO | None = None

    def __enter__(self) -> ShardReader:
        self._stream = self.header.path.open("rb", buffering=0)
        return self

    def __exit__(self, *_: object) -> None:
        if self._stream is not None:
            self._stream.close()

    def read(self, name: str) -> Bytes:
        """The raw bytes of a tensor.

        Raises:
            InputError: the file ends inside the tensor.
        """
        size = max(self.header.tensors[name].nbytes, 1)
        return next(iter(self.pieces(name, size)), np.empty(0, dtype=np.uint8))

    def pieces(self, name: str, size: int = PIECE_BYTES) -> Iterator[Bytes]:
        """The raw bytes of a tensor in pieces of at most `size`, each an array of its own.

        The kernel is told to fetch what follows a piece while the caller works on it.

        Raises:
            InputError: the file ends inside the tensor.
        """
        info = self.header.tensors[name]
        if self._stream is None:
            raise InputError("the shard is not open", fix="Use `with ShardReader(header) as reader`.")
        for begin in range(0, info.nbytes, size):
            piece = np.empty(min(size, info.nbytes - begin), dtype=np.uint8)
            place = self.header.data_start + info.begin + begin
            if not _fill(self._stream.fileno(), piece, place):
                raise InputError("the file ends early", where=f"{self.header.path.name}: {name}")
            if hasattr(os, "posix_fadvise"):
                after = place + len(piece)
                os.posix_fadvise(self._stream.fileno(), after, PIECE_BYTES, os.POSIX_FADV_WILLNEED)
            yield piece


def _fill(descriptor: int, buffer: Bytes, place: int) -> bool:
    """Read `buffer` full from `place` on; whether the file had that much."""
    done = 0
    while done < len(buffer):
        got = os.preadv(descriptor, [buffer[done:].data], place + done)
        if not got:
            return False
        done += got
    return True


@dataclass(slots=True)
class ShardWriter:
    """Writes a shard whose tensors are announced first, and reads back every byte of it.

    A thread writes behind the caller: each `WINDOW_BYTES` are synced, read back and compared while the next
    tensors are converted. The file gets its final name only when it is complete and equal.

    `tensors`: (name, dtype, shape) in the order in which their bytes will come.
    """

    path: Path
    tensors: Sequence[tuple[str, str, tuple[int, ...]]]
    metadata: Mapping[str, str] = field(default_factory=dict)
    _stream: BinaryIO | None = None
    _written: int = 0
    _thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))
    _ahead: deque[Future[None]] = field(default_factory=deque)
    _unread: list[Bytes] = field(default_factory=list)
    _read: int = 0

    @property
    def partial(self) -> Path:
        """Where the bytes go until the shard is complete."""
        return self.path.with_name(f".{self.path.name}.partial")

    def __enter__(self) -> ShardWriter:
        self._stream = self.partial.open("wb+")
        self._hand_over(np.frombuffer(header_bytes(self.tensors, self.metadata), np.uint8))
        return self

    def write(self, raw: npt.NDArray[Any] | bytes) -> None:
        """Append the bytes of the next tensor, whole or in pieces; `raw` must not change afterwards.

        Raises:
            MachineError: earlier bytes, read back, are not what was written.
        """
        if self._stream is None:
            raise InputError("the shard is not open", fix="Use `with ShardWriter(...) as writer`.")
        array = np.frombuffer(raw, np.uint8) if isinstance(raw, bytes) else np.ascontiguousarray(raw)
        data = array.reshape(-1).view(np.uint8)
        self._written += len(data)
        self._hand_over(data)

    def _hand_over(self, data: Bytes) -> None:
        """Queue bytes for the thread; wait where two pieces wait already, so that memory stays bounded."""
        while len(self._ahead) > 1:
            self._ahead.popleft().result()
        self._ahead.append(self._thread.submit(self._append, data))

    def _append(self, data: Bytes) -> None:
        assert self._stream is not None
        self._stream.write(data.data)
        self._unread.append(data)
        if sum(map(len, self._unread)) >= WINDOW_BYTES:
            self._read_back()

    def _read_back(self) -> None:
        assert self._stream is not None
        self._stream.flush()
        os.fsync(self._stream.fileno())
        buffer = np.empty(_COMPARED_BYTES, dtype=np.uint8)
        for data in self._unread:
            for begin in range(0, len(data), _COMPARED_BYTES):
                wanted = data[begin : begin + _COMPARED_BYTES]
                found = buffer[: len(wanted)]
                if not _fill(self._stream.fileno(), found, self._read) or not np.array_equal(found, wanted):
                    raise MachineError(
                        f"read back, {len(found)} bytes from {self._read} on differ from what was written",
                        where=self.path.name,
                        fix="Check the disk, then run it again.",
                    )
                self._read += len(found)
        self._unread.clear()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        assert self._stream is not None
        try:
            if kind is None:
                self._finish()
        finally:
            self._thread.shutdown(cancel_futures=True)
            self._unread.clear()
            self._stream.close()
            self.partial.unlink(missing_ok=True)

    def _finish(self) -> None:
        expected = sum(tensor_bytes(dtype, shape) for _, dtype, shape in self.tensors)
        if self._written != expected:
            raise InputError(f"{self._written} of {expected} bytes were given", where=self.path.name)
        self._ahead.append(self._thread.submit(self._read_back))
        while self._ahead:
            self._ahead.popleft().result()
        self.partial.rename(self.path)
        sync_directory(self.path.parent)


def sync_directory(path: Path) -> None:
    """Make renames in `path` survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@dataclass(frozen=True, slots=True)
class CheckpointFiles:
    """A directory of safetensors shards: headers read and checked, bytes untouched."""

    path: Path
    shards: tuple[PlacedHeader, ...]
    indexed: bool

    def tensors(self) -> Iterator[tuple[PlacedHeader, TensorInfo]]:
        """Every tensor with its shard, in the order of the files."""
        for shard in self.shards:
            for info in shard.tensors.values():
                yield shard, info


def open_checkpoint(path: Path) -> CheckpointFiles:
    """Open a checkpoint directory: an index and its shards, or a single `model.safetensors`.

    Raises:
        InputError: no checkpoint there, shards missing, or index and headers disagree.
    """
    index_path, single = path / INDEX, path / SINGLE
    if not index_path.exists():
        if not single.exists():
            raise InputError(f"neither {INDEX} nor {SINGLE} is there", where=str(path))
        return CheckpointFiles(path, (read_header(single),), indexed=False)
    index = shards.parse_index(index_path.read_bytes(), str(index_path))
    missing = [name for name in index.shards if not (path / name).is_file()]
    if missing:
        raise InputError(
            f"{len(missing)} shards are missing, the first is {missing[0]}", where=str(index_path)
        )
    check, found = shards.IndexCheck(index), []
    for name in index.shards:
        header = shards.read_header(path / name)
        check.shard(name, header)
        found.append(_placed(path / name, header))
    check.finish()
    return CheckpointFiles(path, tuple(found), indexed=True)
