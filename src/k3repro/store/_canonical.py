"""The canonical bytes behind the `data` and `seal` digests; docs/artifact-format.md is the specification."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from k3repro.errors import ArtifactCorrupt
from k3repro.store._schema import Schema, canonical_json
from k3repro.store._vectors import Batch, Vector, strictly_increasing

FORMAT = 1
CHUNK_ROWS = 65_536
DATA_MAGIC = b"k3repro data 1\n"
SEAL_MAGIC = b"k3repro seal 1\n"


def seal_digest(document: str) -> str:
    """The `seal` digest: over the meta document, which holds the `data` digest, tier and all provenance."""
    return hashlib.sha256(SEAL_MAGIC + document.encode()).hexdigest()


def data_digest(schema: Schema, tables: Mapping[str, tuple[int, Iterable[Batch]]]) -> str:
    """The `data` digest of (row count, batches) per table.

    Batches hold a multiple of 65,536 rows each, but for the last of a table.

    Raises:
        ArtifactCorrupt: rows out of key order or repeated, NaN, or a row count that is not met.
    """
    digest = hashlib.sha256(DATA_MAGIC + canonical_json(schema.as_json(docs=False)).encode() + b"\n")
    for table in schema.tables:
        count, batches = tables[table.name]
        digest.update(count.to_bytes(8, "little"))
        seen, last = 0, None
        for batch in batches:
            rows = len(batch[table.key[0]])
            keys = {name: _joined(last, batch[name], name) for name in table.key}
            if not strictly_increasing(keys, table):
                raise ArtifactCorrupt(f"rows near {seen} are not in key order", where=table.name)
            for chunk in _chunks(batch, rows):
                digest.update(chunk)
            last, seen = {name: batch[name].slice(rows - 1, rows) for name in table.key}, seen + rows
        if seen != count:
            raise ArtifactCorrupt(f"{seen} rows where {count} are declared", where=table.name)
    return digest.hexdigest()


def _joined(last: Batch | None, vector: Vector, name: str) -> Vector:
    if last is None or vector.values is None:
        return vector
    before = last[name]
    return Vector(
        vector.type,
        np.concatenate([before.valid, vector.valid]),
        np.concatenate([before.values, vector.values]),
    )


def _chunks(batch: Batch, rows: int) -> Iterator[bytes | Any]:
    for low in range(0, rows, CHUNK_ROWS):
        for vector in batch.values():
            yield from encode(vector.slice(low, min(low + CHUNK_ROWS, rows)))


def encode(vector: Vector) -> Iterator[bytes | Any]:
    """Validity bits, then fixed-width values, or lengths and UTF-8, or lengths and the encoded elements."""
    yield np.packbits(vector.valid, bitorder="little").tobytes()
    if vector.child is not None and vector.lengths is not None:
        yield vector.lengths.astype("<u4").tobytes()
        yield from encode(vector.child)
    elif vector.type == "VARCHAR":
        yield from _encode_text(vector)
    else:
        yield _encode_fixed(vector)


def _encode_text(vector: Vector) -> Iterator[bytes]:
    assert vector.values is not None
    texts: list[str] = vector.values.tolist()
    joined = "".join(texts)
    lengths = map(len, texts) if joined.isascii() else (len(text.encode()) for text in texts)
    yield np.fromiter(lengths, dtype="<u4", count=len(texts)).tobytes()
    yield joined.encode()


def _encode_fixed(vector: Vector) -> Any:
    values = vector.values
    assert values is not None
    if vector.type == "DOUBLE":
        values = values + 0.0
        if not np.isfinite(values).all():
            raise ArtifactCorrupt("NaN or infinity in a DOUBLE column")
    return np.ascontiguousarray(values, dtype="u1" if vector.type == "BOOL" else None).data
