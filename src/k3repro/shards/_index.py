"""A checkpoint's index: which shard holds which tensor, and whether shards and index agree."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from k3repro.errors import InputError
from k3repro.shards._header import ShardHeader

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


class IndexCheck:
    """Holds shards against the index they are named in: every tensor once, where the index says, no other."""

    def __init__(self, index: Index) -> None:
        self.index = index
        self._expected: dict[str, set[str]] = {}
        for tensor, shard in index.weight_map.items():
            self._expected.setdefault(shard, set()).add(tensor)
        self._bytes = 0

    def shard(self, name: str, header: ShardHeader) -> None:
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
