"""Headers of a checkpoint: a file, a folder, an index, or a URL; never the data, two reads a shard."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from k3repro.budget._header import Header, header_length, parse_header
from k3repro.errors import InputError

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
_LONGEST = 240
_FIX = "Give a .safetensors file, a folder of them, an index .json, or the URL of one."


@dataclass(frozen=True, slots=True)
class Index:
    """An index file: which shard holds which tensor, and the total it claims (tensor bytes, or None)."""

    where: str
    weight_map: Mapping[str, str]
    total_size: int | None

    @property
    def shards(self) -> tuple[str, ...]:
        """Shard file names, sorted."""
        return tuple(sorted(set(self.weight_map.values())))


def parse_index(raw: bytes, where: str) -> Index:
    """Parse an index file.

    Raises:
        InputError: not JSON, no weight_map, or a shard name that leaves its folder.
    """
    try:
        data: Any = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise InputError(f"the index is not JSON: {error}", where=where) from None
    shards = data.get("weight_map") if isinstance(data, dict) else None
    if not isinstance(shards, dict) or not shards or not all(isinstance(s, str) for s in shards.values()):
        raise InputError("the index has no weight_map of tensor names to files", where=where, fix=_FIX)
    for shard in set(shards.values()):
        if shard != Path(shard).name or shard in ("", ".", "..") or "\\" in shard:
            raise InputError(f"the index names a shard outside its folder: {shard!r}", where=where)
        if len(shard.encode(errors="replace")) > _LONGEST:
            raise InputError(f"the index names a shard that is no file name: {shard[:40]!r}", where=where)
    metadata = data.get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    return Index(where, shards, _total(total, where))


def _total(total: Any, where: str) -> int | None:
    """The claimed size; some writers store it as a float, some as text, some not at all."""
    if not isinstance(total, (int, float)) or isinstance(total, bool):
        return None
    if not 0 <= total < 2**63:
        raise InputError(f"the index claims a size of {total} bytes", where=where, fix=_FIX)
    return int(total)


def read_headers(source: str, *, progress: Callable[[str], None] | None = None) -> Iterator[Header]:
    """The headers of a checkpoint, shard by shard; `progress` is told each shard's name.

    Raises:
        InputError: nothing to read, a malformed header, or an index that does not agree with its shards.
        TargetError: a server that cannot be reached or does not do range requests.
    """
    if source.startswith(("http://", "https://")):
        from k3repro.budget._http import read_remote

        yield from read_remote(source, progress=progress)
        return
    path = Path(source)
    if path.is_dir():
        index = path / INDEX
        if index.is_file():
            yield from _indexed(index, progress)
            return
        files = sorted(path.glob("*.safetensors"))
        if not files:
            raise InputError("no .safetensors file and no index in this folder", where=source, fix=_FIX)
        yield from _unindexed(files, progress)
    elif path.is_file() and path.suffix == ".json":
        yield from _indexed(path, progress)
    elif path.is_file():
        yield _file(path, progress)
    else:
        raise InputError("no such file or folder", where=source, fix=_FIX)


def read_file(path: Path) -> Header:
    """The header of one local file, in two reads."""
    size = path.stat().st_size
    with path.open("rb", buffering=0) as stream:
        length = header_length(stream.read(8), str(path), size)
        raw = stream.read(length)
    if len(raw) < length:
        raise InputError(f"truncated: {len(raw)} of {length} header bytes could be read", where=str(path))
    return parse_header(raw, str(path), size)


def _file(path: Path, progress: Callable[[str], None] | None) -> Header:
    if progress:
        progress(path.name)
    try:
        return read_file(path)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", where=str(path)) from None


def _unindexed(files: list[Path], progress: Callable[[str], None] | None) -> Iterator[Header]:
    """Without an index nothing says where a tensor belongs, so at least none may be there twice."""
    seen: set[str] = set()
    for file in files:
        header = _file(file, progress)
        names = {entry[0] for entry in header.entries}
        if names & seen:
            raise InputError(f"tensor {min(names & seen)!r} is in another shard too", where=header.where)
        seen |= names
        yield header


def _indexed(path: Path, progress: Callable[[str], None] | None) -> Iterator[Header]:
    index = parse_index(path.read_bytes(), str(path))
    missing = [shard for shard in index.shards if not (path.parent / shard).is_file()]
    if missing:
        raise InputError(
            f"the index names {len(missing)} missing shard(s), the first is {missing[0]}",
            where=str(path),
            fix="Download the missing files, or read the checkpoint by its URL.",
        )
    check = IndexCheck(index)
    for shard in index.shards:
        header = _file(path.parent / shard, progress)
        check.shard(shard, header)
        yield header
    check.finish()


class IndexCheck:
    """Holds shards against the index they are named in: every tensor once, where the index says, no other."""

    def __init__(self, index: Index) -> None:
        self.index = index
        self._expected: dict[str, set[str]] = {}
        for tensor, shard in index.weight_map.items():
            self._expected.setdefault(shard, set()).add(tensor)
        self._bytes = 0

    def shard(self, name: str, header: Header) -> None:
        """Check one shard.

        Raises:
            InputError: a tensor that the index does not place there, or one it does that is not there.
        """
        held = {entry[0] for entry in header.entries}
        expected = self._expected[name]
        if held != expected:
            where = self.index.where
            for tensor in sorted(held - expected):
                placed = self.index.weight_map.get(tensor, "no shard")
                raise InputError(f"tensor {tensor!r} is in {name}, the index says {placed}", where=where)
            absent = min(expected - held)
            raise InputError(f"tensor {absent!r} is not in {name}, the index says it is", where=where)
        self._bytes += header.data_bytes

    def finish(self) -> None:
        """Check the total.

        Raises:
            InputError: the index's total_size is not the tensors' bytes.
        """
        total = self.index.total_size
        if total is not None and total != self._bytes:
            raise InputError(
                f"the index claims {total:,} bytes, the headers hold {self._bytes:,}", where=self.index.where
            )
