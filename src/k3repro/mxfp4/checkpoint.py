"""Sharded safetensors checkpoints, read and written one tensor at a time.

Our own header code, because the reader must name tensor and shard in every complaint and must not map a whole
shard, and the writer must stream tensors whose sizes are known before their bytes are.
Layout: 8 bytes little-endian header length N, N bytes of JSON, then one buffer; offsets count from its start.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from k3repro.errors import InputError

__all__ = [
    "DTYPE_BITS",
    "INDEX_NAME",
    "SINGLE_NAME",
    "Checkpoint",
    "ShardHeader",
    "ShardReader",
    "ShardWriter",
    "TensorInfo",
    "header_bytes",
    "open_checkpoint",
    "parse_header",
    "read_header",
    "sync_directory",
    "tensor_bytes",
]

Bytes = npt.NDArray[np.uint8]

MAX_HEADER_BYTES = 100_000_000
INDEX_NAME = "model.safetensors.index.json"
SINGLE_NAME = "model.safetensors"

DTYPE_BITS: dict[str, int] = {
    "BOOL": 8, "U8": 8, "I8": 8, "U16": 16, "I16": 16, "U32": 32, "I32": 32, "U64": 64, "I64": 64,
    "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "F8_E8M0": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E4M3FNUZ": 8,
    "F8_E5M2FNUZ": 8, "F16": 16, "BF16": 16, "F32": 32, "F64": 64, "C64": 64,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One entry of a header: offsets count from the start of the byte buffer."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int

    @property
    def nbytes(self) -> int:
        return self.end - self.begin


@dataclass(frozen=True, slots=True)
class ShardHeader:
    """A parsed safetensors header; `tensors` in the order of their bytes."""

    path: Path
    tensors: Mapping[str, TensorInfo]
    metadata: Mapping[str, str]
    data_start: int


def tensor_bytes(dtype: str, shape: Sequence[int], *, where: str = "") -> int:
    """Bytes of a tensor.

    Raises:
        InputError: unknown dtype, or elements that do not fill whole bytes.
    """
    if dtype not in DTYPE_BITS:
        raise InputError(f"unknown dtype {dtype!r}", where=where)
    bits = DTYPE_BITS[dtype] * math.prod(shape)
    if bits % 8:
        raise InputError(f"{dtype} {list(shape)} does not fill whole bytes", where=where)
    return bits // 8


def parse_header(raw: bytes, *, where: str = "", buffer_bytes: int | None = None) -> tuple[
    dict[str, TensorInfo], dict[str, str]
]:  # fmt: skip
    """The entries and metadata of the JSON part of a header.

    `buffer_bytes` is the size of the byte buffer, when known: then the offsets must fill it exactly.

    Raises:
        InputError: bad JSON, a name twice, sizes or offsets that disagree, holes, overlaps, a short buffer.
    """
    try:
        entries = json.loads(raw, object_pairs_hook=_unique_pairs)
        json.dumps(entries, ensure_ascii=False).encode()  # a lone surrogate is no name
    except (ValueError, RecursionError) as error:
        raise InputError(f"the safetensors header is not valid JSON ({error})", where=where) from None
    if not isinstance(entries, dict):
        raise InputError("the safetensors header is not a JSON object", where=where)
    metadata = entries.pop("__metadata__", None)
    metadata = {} if metadata is None else metadata
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise InputError("__metadata__ is not an object of strings", where=where)
    infos = sorted(
        (_entry(name, entry, where) for name, entry in entries.items()), key=lambda t: (t.begin, t.end)
    )
    _check_offsets(infos, where, buffer_bytes)
    return {info.name: info for info in infos}, metadata


def _unique_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands there twice")
    return found


def _entry(name: str, entry: Any, where: str) -> TensorInfo:
    place = f"{where}: {name}" if where else name
    try:
        dtype, shape, (begin, end) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
        sizes = (*shape, begin, end)
        if not isinstance(dtype, str) or not all(
            isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in sizes
        ):
            raise ValueError
    except (KeyError, TypeError, ValueError):
        raise InputError("an entry needs dtype, shape and data_offsets", where=place) from None
    expected = tensor_bytes(dtype, shape, where=place)
    if end - begin != expected:
        raise InputError(f"{dtype} {list(shape)} takes {expected} bytes, not {end - begin}", where=place)
    return TensorInfo(name, dtype, shape, begin, end)


def _check_offsets(infos: list[TensorInfo], where: str, buffer_bytes: int | None) -> None:
    position = 0
    for info in infos:
        if info.begin != position:
            what = "overlaps the one before" if info.begin < position else "leaves a hole before it"
            raise InputError(f"the tensor {what}", where=f"{where}: {info.name}")
        if buffer_bytes is not None and info.end > buffer_bytes:
            raise InputError(
                f"the file ends early: {info.end - buffer_bytes} bytes are missing",
                where=f"{where}: {info.name}",
                fix="Download the shard again.",
            )
        position = info.end
    if buffer_bytes is not None and position != buffer_bytes:
        raise InputError(f"{buffer_bytes - position} bytes follow the last tensor", where=where)


def read_header(path: Path) -> ShardHeader:
    """The header of a safetensors file; its offsets are checked against the size of the file.

    Raises:
        InputError: not a safetensors file, or one that ends early; shard and tensor are named.
    """
    where = path.name
    try:
        size = path.stat().st_size
        with path.open("rb") as stream:
            prefix = stream.read(8)
            length = int.from_bytes(prefix, "little")
            if len(prefix) < 8 or length > MAX_HEADER_BYTES:
                raise InputError("this is not a safetensors file", where=where)
            raw = stream.read(length)
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror})", where=where) from None
    if len(raw) < length:
        raise InputError(
            f"the file ends inside its header of {length} bytes", where=where, fix="Download it again."
        )
    tensors, metadata = parse_header(raw, where=where, buffer_bytes=size - 8 - length)
    return ShardHeader(path, tensors, metadata, 8 + length)


class ShardReader:
    """Reads tensors of one shard into memory one at a time. Use as a context manager."""

    def __init__(self, header: ShardHeader) -> None:
        self.header = header
        self._stream: BinaryIO | None = None

    def __enter__(self) -> ShardReader:
        self._stream = self.header.path.open("rb")
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

    def pieces(self, name: str, size: int) -> Iterator[Bytes]:
        """The raw bytes of a tensor in pieces of at most `size`; each piece is valid until the next.

        Raises:
            InputError: the file ends inside the tensor.
        """
        info = self.header.tensors[name]
        stream = self._stream
        if stream is None:
            raise InputError("the shard is not open", fix="Use `with ShardReader(header) as reader`.")
        buffer = np.empty(min(size, info.nbytes), dtype=np.uint8)
        for begin in range(0, info.nbytes, size):
            piece = buffer[: min(size, info.nbytes - begin)]
            stream.seek(self.header.data_start + info.begin + begin)
            if stream.readinto(piece.data) != len(piece):  # type: ignore[attr-defined]
                raise InputError("the file ends early", where=f"{self.header.path.name}: {name}")
            yield piece


@dataclass(slots=True)
class ShardWriter:
    """Writes a shard whose tensors are announced first; the file gets its final name only when complete.

    `tensors`: (name, dtype, shape) in the order in which their bytes will come.
    """

    path: Path
    tensors: Sequence[tuple[str, str, tuple[int, ...]]]
    metadata: Mapping[str, str] = field(default_factory=dict)
    _stream: BinaryIO | None = None
    _written: int = 0

    @property
    def partial(self) -> Path:
        """Where the bytes go until the shard is complete."""
        return self.path.with_name(f".{self.path.name}.partial")

    def __enter__(self) -> ShardWriter:
        self._stream = self.partial.open("wb")
        raw = header_bytes(self.tensors, self.metadata)
        self._stream.write(len(raw).to_bytes(8, "little") + raw)
        return self

    def write(self, raw: npt.NDArray[Any] | bytes) -> None:
        """Append the bytes of the next tensor, whole or in pieces."""
        if self._stream is None:
            raise InputError("the shard is not open", fix="Use `with ShardWriter(...) as writer`.")
        data = np.ascontiguousarray(raw).reshape(-1).view(np.uint8) if isinstance(raw, np.ndarray) else raw
        self._stream.write(data.data if isinstance(data, np.ndarray) else data)
        self._written += len(data)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        assert self._stream is not None
        try:
            if kind is None:
                self._finish()
        finally:
            self._stream.close()
            self.partial.unlink(missing_ok=True)

    def _finish(self) -> None:
        expected = sum(tensor_bytes(dtype, shape) for _, dtype, shape in self.tensors)
        if self._written != expected:
            raise InputError(f"{self._written} of {expected} bytes were given", where=self.path.name)
        assert self._stream is not None
        self._stream.flush()
        os.fsync(self._stream.fileno())
        self._stream.close()
        self.partial.rename(self.path)
        sync_directory(self.path.parent)


def sync_directory(path: Path) -> None:
    """Make renames in `path` survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def header_bytes(tensors: Sequence[tuple[str, str, tuple[int, ...]]], metadata: Mapping[str, str]) -> bytes:
    """The JSON part of a header, padded with spaces to a multiple of 8 as other writers do."""
    entries: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    position = 0
    for name, dtype, shape in tensors:
        end = position + tensor_bytes(dtype, shape, where=name)
        entries[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [position, end]}
        position = end
    raw = json.dumps(entries, separators=(",", ":")).encode()
    return raw + b" " * (-len(raw) % 8)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A directory of safetensors shards: headers read and checked, bytes untouched."""

    path: Path
    shards: tuple[ShardHeader, ...]
    indexed: bool

    def tensors(self) -> Iterator[tuple[ShardHeader, TensorInfo]]:
        """Every tensor with its shard, in the order of the files."""
        for shard in self.shards:
            for info in shard.tensors.values():
                yield shard, info


def open_checkpoint(path: Path) -> Checkpoint:
    """Open a checkpoint directory: an index and its shards, or a single `model.safetensors`.

    Raises:
        InputError: no checkpoint there, shards missing, or index and headers disagree.
    """
    index_path, single = path / INDEX_NAME, path / SINGLE_NAME
    if not index_path.exists():
        if not single.exists():
            raise InputError(f"neither {INDEX_NAME} nor {SINGLE_NAME} is there", where=str(path))
        return Checkpoint(path, (read_header(single),), indexed=False)
    weight_map = _weight_map(index_path)
    missing = sorted(name for name in set(weight_map.values()) if not (path / name).exists())
    if missing:
        raise InputError(f"{len(missing)} shards are missing, the first is {missing[0]}", where=INDEX_NAME)
    shards = tuple(read_header(path / name) for name in sorted(set(weight_map.values())))
    _compare(weight_map, shards)
    return Checkpoint(path, shards, indexed=True)


def _weight_map(index_path: Path) -> dict[str, str]:
    try:
        weight_map = json.loads(index_path.read_bytes())["weight_map"]
        names = {str(name): str(file) for name, file in weight_map.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise InputError("the index has no weight_map", where=index_path.name) from None
    outside = next((f for f in names.values() if not _plain_name(f)), None)
    if outside is not None:
        raise InputError(f"{outside[:80]!r} is not a plain file name", where=index_path.name)
    return names


def _plain_name(file: str) -> bool:
    return Path(file).name == file and not file.startswith(".") and len(file.encode(errors="replace")) <= 240


def _compare(weight_map: Mapping[str, str], shards: Sequence[ShardHeader]) -> None:
    found: dict[str, str] = {}
    for shard in shards:
        for name in shard.tensors:
            if name in found:
                raise InputError(f"the tensor is in {found[name]} too", where=f"{shard.path.name}: {name}")
            found[name] = shard.path.name
    for name, file in weight_map.items():
        if found.get(name) != file:
            raise InputError("the index names a tensor that the shard does not hold", where=f"{file}: {name}")
    extra = next((name for name in found if name not in weight_map), None)
    if extra is not None:
        raise InputError(
            "the shard holds a tensor that the index does not name", where=f"{found[extra]}: {extra}"
        )
