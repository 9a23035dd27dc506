"""The safetensors header: 8 bytes little-endian length N, N bytes of JSON, then the buffer that it covers.

Stricter than the reference implementation (safetensors 0.8), never laxer: an entry has dtype, shape and
data_offsets and nothing else, and a name stands there once. One exception is asked for: a fixture that is
marked as header-only has no buffer.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from k3repro.errors import InputError

MAX_HEADER = 100_000_000
HEADER_ONLY = {"k3repro": "header-only"}
"""Metadata entry that marks a fixture without its buffer."""

_U64 = 2**64 - 1
_KEYS = ("dtype", "shape", "data_offsets")

# dtype -> bits per element
DTYPES: dict[str, int] = {
    "BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8,
    "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16,
    "I32": 32, "U32": 32, "F32": 32, "C64": 64, "F64": 64, "I64": 64, "U64": 64,
}  # fmt: skip

Entry = tuple[str, str, tuple[int, ...], int, int]
"""Name, dtype, shape, begin and end of a tensor, as the header writes them."""

Checked = tuple[tuple[str, str, tuple[int, ...], int], ...]
"""Name, dtype, shape and bytes of each tensor, in the order of the buffer."""


class TensorEntry(NamedTuple):
    """One tensor of a header; `nbytes` on disk."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int


@dataclass(frozen=True, slots=True)
class ShardHeader:
    """A checked header: its tensors in the order of the buffer, and the size of the buffer in bytes."""

    where: str
    entries: Checked
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


def read_header(path: Path) -> ShardHeader:
    """The header of one local file, in two reads.

    Raises:
        InputError: unreadable, cut short, or malformed.
    """
    try:
        size = path.stat().st_size
        with path.open("rb", buffering=0) as stream:
            length = header_length(stream.read(8), str(path), size)
            raw = stream.read(length)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", where=str(path)) from None
    if len(raw) < length:
        raise _refused(str(path), f"truncated: {len(raw)} of {length} header bytes could be read")
    return parse_header(raw, str(path), size)


def parse_header(raw: bytes, where: str, file_size: int | None = None) -> ShardHeader:
    """Parse and check the JSON part of a header. `file_size` None skips the check against the file's length.

    Raises:
        InputError: anything that the reference implementation refuses, an unknown key, or a name twice.
    """
    try:
        metadata, parsed, plain = _parsed(raw)
        found = _in_order(parsed) if plain else None
        tensors, end = found or _checked([_entry(name, info) for name, info in parsed.items()], where)
    except (ValueError, RecursionError) as error:
        raise _refused(where, f"the header is not valid: {error}") from None
    header = ShardHeader(where, tensors, metadata, len(raw), end)
    if file_size is not None and not (header.header_only and file_size == 8 + len(raw)):
        _cover(header, file_size)
    return header


def _cover(header: ShardHeader, file_size: int) -> None:
    expected = 8 + header.header_bytes + header.data_bytes
    if file_size < expected:
        said = f"truncated: tensors need {expected:,} bytes, the file has {file_size:,}"
        raise _refused(header.where, said)
    if file_size > expected:
        raise _refused(header.where, f"{file_size - expected:,} bytes after the last tensor belong to none")


def _refused(where: str, what: str) -> InputError:
    return InputError(what, where=where, fix="Download the file again or ask its publisher.")


def _no(text: str) -> Any:
    raise ValueError(f"{text} has no place in a header")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} stands there twice")
    return found


def _integer(text: str) -> int:
    return _no(text) if text.startswith("-") else int(text)


def _parsed(raw: bytes) -> tuple[dict[str, str], dict[str, Any], bool]:
    """Metadata, what every tensor's name stands for, and whether each whole number in it is one."""
    text = raw.decode("utf-8")
    parsed = json.loads(text, parse_constant=_no, parse_float=_no)
    if not isinstance(parsed, dict):
        raise ValueError("it is not a JSON object")
    tensors = len(parsed) - ("__metadata__" in parsed)
    # A name or key that stands there twice leaves fewer entries than keys; names may hold such a key too, so
    # the careful reading decides. It also sees what Python reads more kindly than the format: -0 and escapes.
    odd = any(text.count(f'"{key}"') != tensors for key in _KEYS) or text.count('"__metadata__"') > 1
    if odd or "\\" in text or "-0" in text:
        parsed = json.loads(
            text, parse_constant=_no, parse_float=_no, parse_int=_integer, object_pairs_hook=_once
        )
        text.encode() if "\\" not in text else json.dumps(parsed, ensure_ascii=False).encode()
    metadata = parsed.pop("__metadata__", None)
    metadata = {} if metadata is None else metadata
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise ValueError("__metadata__ maps strings to strings")
    return metadata, parsed, "true" not in text and "false" not in text


def _in_order(parsed: Mapping[str, Any]) -> tuple[Checked, int] | None:
    """`_checked` of a header whose tensors stand in the order of the buffer, as writers do; None where one
    gives reason to look closer. Without true and false, which equal one and zero, a number that equals the
    one expected is that number; so each kind of tensor is looked at once."""
    sizes: dict[tuple[str, tuple[int, ...]], int] = {}
    tensors = []
    end = 0
    try:
        for name, info in parsed.items():
            dtype, shape = info["dtype"], info["shape"]
            if len(info) != 3 or type(shape) is not list:
                return None
            shape = tuple(shape)
            size = sizes.get((dtype, shape))
            if size is None:
                _entry(name, info)
                size = sizes[dtype, shape] = tensor_bytes(dtype, shape)
            if info["data_offsets"] != [end, end + size]:
                return None
            tensors.append((name, dtype, shape, size))
            end += size
    except (InputError, KeyError, TypeError, ValueError):
        return None
    return (tuple(tensors), end) if end <= _U64 else None


def _entry(name: str, info: Any) -> Entry:
    if not isinstance(info, dict) or info.keys() != set(_KEYS):
        raise ValueError(f"tensor {name!r} needs dtype, shape and data_offsets, and nothing else")
    dtype, shape, offsets = info["dtype"], info["shape"], info["data_offsets"]
    if type(dtype) is not str or type(shape) is not list or type(offsets) is not list or len(offsets) != 2:
        raise ValueError(f"tensor {name!r} has a dtype, shape or data_offsets of the wrong kind")
    for size in (*shape, *offsets):
        if type(size) is not int or not 0 <= size <= _U64:
            raise ValueError(f"tensor {name!r} has a size or offset that is no whole number")
    return name, dtype, tuple(shape), offsets[0], offsets[1]


def _checked(entries: list[Entry], where: str) -> tuple[Checked, int]:
    """Tensors in buffer order; the buffer has no hole, no overlap, and every size is its shape's."""
    entries.sort(key=_offsets)
    sizes: dict[tuple[str, tuple[int, ...]], int] = {}
    tensors = []
    expected = 0
    for name, dtype, shape, begin, end in entries:
        if begin != expected or end < begin:
            kind = "overlaps its neighbour" if begin < expected else "leaves a hole before it"
            said = f"tensor {name!r} at [{begin}, {end}) {kind} (expected to begin at {expected})"
            raise _refused(where, said)
        size = sizes.get((dtype, shape))
        if size is None:
            size = sizes[dtype, shape] = tensor_bytes(dtype, shape, where=f"{where}: {name}")
        if end - begin != size:
            said = f"tensor {name!r} takes {end - begin} bytes, its shape and dtype say {size}"
            raise _refused(where, said)
        tensors.append((name, dtype, shape, size))
        expected = end
    return tuple(tensors), expected


def _offsets(entry: Entry) -> tuple[int, int]:
    return entry[3], entry[4]


def tensor_bytes(dtype: str, shape: Iterable[int], *, where: str = "") -> int:
    """Bytes of a tensor.

    Raises:
        InputError: unknown dtype, a shape that overflows, or elements that do not fill whole bytes.
    """
    bits = DTYPES.get(dtype)
    if bits is None:
        raise _refused(where, f"unknown dtype {dtype!r} (known: {', '.join(sorted(DTYPES))})")
    total = 1
    for size in (*shape, bits):
        total *= size
        if total > _U64:
            raise _refused(where, "a shape that overflows")
    if total % 8:
        raise _refused(where, f"{dtype} {list(shape)} does not fill whole bytes")
    return total // 8


def header_bytes(tensors: Iterable[tuple[str, str, tuple[int, ...]]], metadata: Mapping[str, str]) -> bytes:
    """Length and JSON of a header of (name, dtype, shape), padded to a multiple of eight as writers do."""
    entries: dict[str, object] = {"__metadata__": dict(metadata)} if metadata else {}
    begin = 0
    for name, dtype, shape in tensors:
        end = begin + tensor_bytes(dtype, shape, where=name)
        entries[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}
        begin = end
    raw = json.dumps(entries, separators=(",", ":")).encode("utf-8")
    raw += b" " * (-len(raw) % 8)
    return len(raw).to_bytes(8, "little") + raw
