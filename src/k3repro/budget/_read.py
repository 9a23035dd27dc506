"""Headers of a checkpoint: a file, a folder, an index, or a URL; never the data, two reads a shard."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from k3repro.errors import InputError
from k3repro.shards import INDEX, IndexCheck, ShardHeader, parse_index, read_header

_FIX = "Give a .safetensors file, a folder of them, an index .json, or the URL of one."


def read_headers(source: str, *, progress: Callable[[str], None] | None = None) -> Iterator[ShardHeader]:
    """The headers of a checkpoint, shard by shard; `progress` is told each shard's name.

    Raises:
        InputError: nothing to read, a malformed header, or an index that does not agree with its shards.
        TargetError: a server that cannot be reached or does not do range requests.
    """
    if source.startswith(("http://", "https://")):
        from k3repro.budget._http import read_remote  # with it come http and ssl

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


def _file(path: Path, progress: Callable[[str], None] | None) -> ShardHeader:
    if progress:
        progress(path.name)
    return read_header(path)


def _unindexed(files: list[Path], progress: Callable[[str], None] | None) -> Iterator[ShardHeader]:
    """Without an index nothing says where a tensor belongs, so at least none may be there twice."""
    seen: set[str] = set()
    for file in files:
        header = _file(file, progress)
        names = {entry[0] for entry in header.entries}
        if names & seen:
            raise InputError(f"tensor {min(names & seen)!r} is in another shard too", where=header.where)
        seen |= names
        yield header


def _indexed(path: Path, progress: Callable[[str], None] | None) -> Iterator[ShardHeader]:
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
