"""The digests once more, written from docs/artifact-format.md alone: slow, plain Python, no numpy."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any


def reference_data_digest(
    schema: Mapping[str, Any], tables: Mapping[str, Sequence[Mapping[str, Any]]]
) -> str:
    """`schema` as the document has it; rows in any order, times as aware datetimes."""
    bare = {
        "tables": [
            {
                "columns": [
                    {k: c[k] for k in ("name", "nullable", "type", "unit")} for c in table["columns"]
                ],
                "key": table["key"],
                "name": table["name"],
            }
            for table in schema["tables"]
        ]
    }
    text = json.dumps(bare, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    out = [b"k3repro data 1\n", text.encode("utf-8"), b"\n"]
    for table in schema["tables"]:
        rows = sorted(tables[table["name"]], key=lambda row: [row[name] for name in table["key"]])
        out.append(struct.pack("<Q", len(rows)))
        for start in range(0, len(rows), 65536):
            chunk = rows[start : start + 65536]
            for column in table["columns"]:
                out.append(encode([row[column["name"]] for row in chunk], column["type"]))
    return hashlib.sha256(b"".join(out)).hexdigest()


def encode(values: Sequence[Any], kind: str) -> bytes:
    """One column of one chunk."""
    bits = bytearray((len(values) + 7) // 8)
    for i, value in enumerate(values):
        if value is not None:
            bits[i // 8] |= 1 << (i % 8)
    out = bytes(bits)
    if kind.endswith("[]"):
        out += b"".join(struct.pack("<I", len(value or ())) for value in values)
        return out + encode([item for value in values if value for item in value], kind[:-2])
    if kind == "VARCHAR":
        texts = [(value or "").encode("utf-8") for value in values]
        return out + b"".join(struct.pack("<I", len(text)) for text in texts) + b"".join(texts)
    return out + b"".join(_fixed(value, kind) for value in values)


def _fixed(value: Any, kind: str) -> bytes:
    if kind == "BOOL":
        return b"\1" if value else b"\0"
    if kind == "DOUBLE":
        return struct.pack("<d", value if value else 0.0)
    if kind == "TIMESTAMP" and value is not None:
        delta = value - datetime(1970, 1, 1, tzinfo=UTC)
        value = (delta.days * 86400 + delta.seconds) * 1_000_000 + delta.microseconds
    return struct.pack("<q", value or 0)


def reference_seal(document: str) -> str:
    """The seal of a stored document."""
    return hashlib.sha256(b"k3repro seal 1\n" + document.encode("utf-8")).hexdigest()
