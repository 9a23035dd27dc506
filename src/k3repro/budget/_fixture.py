"""Header-only fixtures: the exact headers of a full-size checkpoint, without a byte of weights.

Each file is marked in its metadata; the reader takes such a file as whole only when it ends with its header.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from k3repro.budget._inventory import tensors_of
from k3repro.errors import InputError
from k3repro.shards import HEADER_ONLY, INDEX, TensorEntry, header_bytes
from k3repro.spec import Model

_SHARD_BYTES = 16 * 2**30


def write_fixture(
    model: Model, folder: Path, *, shards: int | None = None, sparse: bool = False
) -> list[Path]:
    """Write the headers of `model` as shards and an index; returns the shards.

    `shards` defaults to the model's own number, else about 16 GiB each. `sparse` extends every file to its
    full size without writing data, for readers that check the length; the file system must support holes.

    Raises:
        InputError: the folder already holds a checkpoint.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.glob("*.safetensors")) or (folder / INDEX).exists():
        raise InputError(
            "the folder already holds a checkpoint", where=str(folder), fix="Choose an empty folder."
        )
    tensors = list(tensors_of(model))
    total = sum(tensor.nbytes for tensor in tensors)
    count = shards or model.shards or max(1, -(-total // _SHARD_BYTES))
    files, weight_map = [], {}
    for number, part in enumerate(_split(tensors, count, total), start=1):
        name = f"model-{number:05d}-of-{count:06d}.safetensors"
        _write(folder / name, part, sparse=sparse)
        files.append(folder / name)
        weight_map.update({tensor.name: name for tensor in part})
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (folder / INDEX).write_text(json.dumps(index), encoding="utf-8")
    return files


def _split(tensors: Sequence[TensorEntry], count: int, total: int) -> list[list[TensorEntry]]:
    """Consecutive parts of about equal bytes, none empty."""
    if count > len(tensors):
        raise InputError(f"{len(tensors)} tensors cannot fill {count} shards")
    parts: list[list[TensorEntry]] = [[] for _ in range(count)]
    seen = 0
    for position, tensor in enumerate(tensors):
        by_bytes = min(count - 1, seen * count // max(total, 1))
        at_least = count - (len(tensors) - position)
        parts[max(by_bytes, at_least, 0)].append(tensor)
        seen += tensor.nbytes
    return [part for part in parts if part]


def _write(path: Path, tensors: Sequence[TensorEntry], *, sparse: bool) -> None:
    metadata = {"format": "pt"} if sparse else {"format": "pt", **HEADER_ONLY}
    raw = header_bytes([tensor[:3] for tensor in tensors], metadata)
    with path.open("wb") as stream:
        stream.write(raw)
        if sparse:
            stream.truncate(len(raw) + sum(tensor.nbytes for tensor in tensors))
