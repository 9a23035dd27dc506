"""The safetensors header: 8 bytes little-endian length N, N bytes of JSON, then the buffer that it covers.

Refuses exactly what the reference implementation (safetensors 0.8) refuses, with one exception that is asked
for: a fixture that is marked as header-only has no buffer. The fuzz test compares both on every case.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from k3repro.errors import InputError

MAX_HEADER = 100_000_000
MAX_DEPTH = 127
HEADER_ONLY = {"k3repro": "header-only"}
"""Metadata entry that marks a fixture without its buffer."""

_U64 = 2**64 - 1

# dtype -> bits per element
DTYPES: dict[str, int] = {
    "BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8,
    "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16,
    "I32": 32, "U32": 32,
    "F32": 32, "C64": 64, "F64": 64, "I64": 64, "U64": 64,
}  # fmt: skip


Entry = tuple[str, str, tuple[int, ...], int, int]
"""Name, dtype, shape, begin and end of a tensor, as the header writes them."""


class TensorEntry(NamedTuple):
    """One tensor of a header; `nbytes` on disk."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int


@dataclass(frozen=True, slots=True)
class Header:
    """A checked header: its tensors in the order of the buffer, and the size of the buffer in bytes."""

    where: str
    entries: tuple[tuple[str, str, tuple[int, ...], int], ...]
    metadata: Mapping[str, str]
    header_bytes: int
    data_bytes: int

    @property
    def tensors(self) -> tuple[TensorEntry, ...]:
        """The tensors with names for their fields; `entries` are the same as plain tuples."""
        return tuple(map(TensorEntry._make, self.entries))

    @property
    def header_only(self) -> bool:
        """Whether this is a fixture without its buffer."""
        return HEADER_ONLY.items() <= self.metadata.items()


def header_length(prefix: bytes, where: str, file_size: int | None = None) -> int:
    """N, from the first eight bytes of a file.

    Raises:
        InputError: fewer than eight bytes, N above 100,000,000, or N past the end of the file.
    """
    if len(prefix) < 8:
        raise _refused(where, f"a safetensors file has at least 8 bytes, this one {len(prefix)}")
    length = int.from_bytes(prefix[:8], "little")
    if length > MAX_HEADER:
        raise _refused(where, f"header length {length:,} is above the format's limit of {MAX_HEADER:,} bytes")
    if file_size is not None and 8 + length > file_size:
        raise _refused(where, f"truncated: the header needs {8 + length:,} bytes, the file has {file_size:,}")
    return length


def parse_header(raw: bytes, where: str, file_size: int | None = None) -> Header:
    """Parse and check the JSON part of a header. `file_size` None skips the check against the file's length.

    Raises:
        InputError: anything the reference implementation refuses, in one sentence.
    """
    try:
        metadata, entries = _entries(raw)
    except (ValueError, RecursionError) as error:
        raise _refused(where, f"the header is not valid: {error}") from None
    tensors, end = _checked(entries, where)
    header = Header(where, tensors, metadata, len(raw), end)
    if file_size is not None and not (header.header_only and file_size == 8 + len(raw)):
        _cover(header, file_size)
    return header


def _cover(header: Header, file_size: int) -> None:
    expected = 8 + header.header_bytes + header.data_bytes
    if file_size < expected:
        raise _refused(
            header.where, f"truncated: tensors need {expected:,} bytes, the file has {file_size:,}"
        )
    if file_size > expected:
        raise _refused(header.where, f"{file_size - expected:,} bytes after the last tensor belong to none")


def _refused(where: str, what: str) -> InputError:
    return InputError(what, where=where, fix="Download the file again or ask its publisher.")


class _Unusual(Exception):
    """The fast path met something that only the exact path judges."""


def _no_float(text: str) -> Any:
    raise _Unusual


def _constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


def _entries(raw: bytes) -> tuple[dict[str, str], list[Entry]]:
    """Metadata and (name, dtype, shape, begin, end) of every tensor, last of equal names."""
    text = raw.decode("utf-8")
    # Escapes, negative zeros and booleans are what Python reads differently from the reference.
    if not any(mark in raw for mark in (b"\\", b"-0", b"true", b"false")):
        with contextlib.suppress(_Unusual):
            plain = _plain(raw, json.loads(text, parse_constant=_constant, parse_float=_no_float))
            if plain is not None:
                return plain
    return _exact(text)


def _plain(raw: bytes, parsed: Any) -> tuple[dict[str, str], list[Entry]] | None:
    """The fast path: None when anything is out of the ordinary, so that the exact path decides."""
    if not isinstance(parsed, dict):
        return None
    metadata = parsed.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(type(value) is str for value in metadata.values()):
        return None
    count = len(parsed)
    # With three known keys per tensor and no key twice, the quotes in the text are these and no others.
    quotes = 10 * count + 4 * len(metadata) + (2 if b'"__metadata__"' in raw else 0)
    if raw.count(b'"dtype"') != count or raw.count(b'"') != quotes or raw.count(b"[") != 2 * count:
        return None
    try:
        entries = []
        for name, info in parsed.items():
            begin, end = info["data_offsets"]
            entries.append((name, info["dtype"], tuple(info["shape"]), begin, end))
        sizes = {(entry[1], entry[2]) for entry in entries}
    except (KeyError, TypeError, ValueError):
        return None
    ordinary = all(
        type(dtype) is str and all(type(size) is int and 0 <= size <= _U64 for size in shape)
        for dtype, shape in sizes
    )
    offsets = all(type(entry[3]) is int and type(entry[4]) is int and entry[3] >= 0 for entry in entries)
    return (metadata, entries) if ordinary and offsets else None


class _Object(list[tuple[str, Any]]):
    """A JSON object with its pairs as written, duplicates included."""


def _exact(text: str) -> tuple[dict[str, str], list[Entry]]:
    """The slow path: the reference parser's own rules, pair by pair."""
    _bound_depth(text)
    top = json.loads(
        text, parse_constant=_constant, parse_int=_integer, parse_float=_float, object_pairs_hook=_Object
    )
    json.dumps(top, ensure_ascii=False).encode("utf-8")
    if not isinstance(top, _Object):
        raise ValueError("it is not a JSON object")
    metadata: dict[str, str] = {}
    if sum(key == "__metadata__" for key, _ in top) > 1:
        raise ValueError("__metadata__ is there twice")
    entries: dict[str, Entry] = {}
    for name, info in top:
        if name == "__metadata__":
            metadata = _metadata(info)
        else:
            entries[name] = _info(name, info)
    return metadata, list(entries.values())


def _bound_depth(text: str) -> None:
    depth = deepest = 0
    for token in re.finditer(r'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]', text):
        if token[0] in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif token[0] in "]}":
            depth -= 1
    if deepest > MAX_DEPTH:
        raise ValueError("it is nested too deeply")


def _integer(text: str) -> Any:
    value = int(text)
    if text.startswith("-0") or not -(2**63) <= value <= _U64:
        return _float(text)
    return value


def _float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError("a number is out of range")
    return value


def _metadata(info: Any) -> dict[str, str]:
    if info is None:
        return {}
    if not isinstance(info, _Object) or not all(isinstance(value, str) for _, value in info):
        raise ValueError("__metadata__ maps strings to strings")
    return dict(info)


def _info(name: str, info: Any) -> Entry:
    if isinstance(info, _Object):
        known = [key for key, _ in info if key in ("dtype", "shape", "data_offsets")]
        if sorted(known) != ["data_offsets", "dtype", "shape"]:
            raise ValueError(f"tensor {name!r} needs dtype, shape and data_offsets, each once")
        fields = dict(info)
        dtype, shape, offsets = fields["dtype"], fields["shape"], fields["data_offsets"]
    elif isinstance(info, list) and len(info) == 3:
        dtype, shape, offsets = info
    else:
        raise ValueError(f"tensor {name!r} is not described by an object")
    if isinstance(dtype, _Object) and len(dtype) == 1 and dtype[0][1] is None:
        dtype = dtype[0][0]
    if not isinstance(dtype, str) or not _sizes(shape) or not _sizes(offsets) or len(offsets) != 2:
        raise ValueError(f"tensor {name!r} has a dtype, shape or data_offsets of the wrong kind")
    return name, dtype, tuple(shape), offsets[0], offsets[1]


def _sizes(value: Any) -> bool:
    if not isinstance(value, list) or isinstance(value, _Object):
        return False
    return all(type(size) is int and 0 <= size <= _U64 for size in value)


def _checked(
    entries: list[Entry], where: str
) -> tuple[tuple[tuple[str, str, tuple[int, ...], int], ...], int]:
    """Tensors in buffer order; the buffer has no hole, no overlap, and every size is its shape's."""
    entries.sort(key=_offsets)
    sizes: dict[tuple[str, tuple[int, ...]], int] = {}
    tensors = []
    expected = 0
    for name, dtype, shape, begin, end in entries:
        if begin != expected or end < begin:
            kind = "overlaps its neighbour" if begin < expected else "leaves a hole before it"
            raise _refused(
                where, f"tensor {name!r} at [{begin}, {end}) {kind} (expected to begin at {expected})"
            )
        size = sizes.get((dtype, shape))
        if size is None:
            size = sizes[dtype, shape] = _bytes_of(name, dtype, shape, where)
        if end - begin != size:
            raise _refused(
                where, f"tensor {name!r} takes {end - begin} bytes, its shape and dtype say {size}"
            )
        tensors.append((name, dtype, shape, size))
        expected = end
    return tuple(tensors), expected


def _offsets(entry: Entry) -> tuple[int, int]:
    return entry[3], entry[4]


def _bytes_of(name: str, dtype: str, shape: tuple[int, ...], where: str) -> int:
    bits = DTYPES.get(dtype)
    if bits is None:
        raise _refused(
            where, f"tensor {name!r} has unknown dtype {dtype!r} (known: {', '.join(sorted(DTYPES))})"
        )
    total = 1
    for size in (*shape, bits):
        total *= size
        if total > _U64:
            raise _refused(where, f"tensor {name!r} has a shape that overflows")
    if total % 8:
        raise _refused(where, f"tensor {name!r} does not end on a byte")
    return total // 8
