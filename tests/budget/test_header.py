"""Headers: never laxer than the reference implementation, and stricter only where it is said."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors import deserialize

from k3repro.errors import InputError
from k3repro.shards import DTYPES, TensorEntry, header_bytes, header_length, parse_header, read_header

ONE = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}


def reference(raw: bytes, data: bytes) -> list[tuple[str, str, tuple[int, ...]]] | None:
    """What safetensors reads, or None where it refuses."""
    try:
        found = deserialize(struct.pack("<Q", len(raw)) + raw + data)
    except Exception:
        return None
    return sorted((name, info["dtype"], tuple(info["shape"])) for name, info in found)


def ours(raw: bytes, data: bytes) -> list[tuple[str, str, tuple[int, ...]]] | None:
    size = 8 + len(raw) + len(data)
    try:
        header_length(struct.pack("<Q", len(raw)), "f", size)
        header = parse_header(raw, "f", size)
    except InputError as error:
        assert str(error).startswith("f: ")
        return None
    return sorted((tensor.name, tensor.dtype, tensor.shape) for tensor in header.tensors)


def stricter(raw: bytes) -> bool:
    """Whether only this reader refuses: a name or key twice, an entry with other keys, an entry as a list."""
    twice = False

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal twice
        twice |= len(dict(found)) != len(found)
        return dict(found)

    document = json.loads(raw, object_pairs_hook=pairs)
    entries = [info for name, info in document.items() if name != "__metadata__"]
    keys = {"dtype", "shape", "data_offsets"}
    return twice or any(
        not isinstance(info, dict) or set(info) != keys or isinstance(info["dtype"], dict) for info in entries
    )


def agree(raw: bytes, data: bytes) -> bool:
    """Whether it was accepted, after asserting that both say the same."""
    expected, found = reference(raw, data), ours(raw, data)
    if found is None and expected is not None:
        assert stricter(raw), (raw[:300], len(data), expected)
        return False
    if expected is None:
        assert found is None, (raw[:300], len(data), found)
        return False
    assert found is not None
    # F8 and float names are spelled differently by the binding for a few dtypes; shapes and names decide.
    assert [(n, s) for n, _, s in expected] == [(n, s) for n, _, s in found]
    return True


def text(entry: str) -> bytes:
    return b'{"a":' + entry.encode() + b"}"


def after_its_like(one: str, other: str) -> bytes:
    """A sound tensor of one byte, one that only looks the same, and two bytes more."""
    last = '"c":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}'
    return f'{{"a":{{"dtype":"U8","shape":{one},"data_offsets":[0,1]}},"b":{other},{last}}}'.encode()


GOOD = [
    after_its_like("[1]", '{"dtype":"U8","shape":[1],"data_offsets":[1,2]}'),
    b"{}",
    b"  {}",
    b"{} \n\t\r ",
    b'{"__metadata__":null}',
    text('{"dtype":"F32","shape":[],"data_offsets":[0,4]}'),
    text('{"\\u0064type":"F32","shape":[1],"data_offsets":[0,4]}'),
    b'{"\\ud83d\\ude00-0":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}',
    b'{"z":{"dtype":"F32","shape":[0],"data_offsets":[4,4]},"y":{"dtype":"F32","shape":[0,7],"data_offsets":[0,0]},"a":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}}',
]
STRICT = [
    text('["F32",[1],[0,4]]'),
    text('{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":{"dtype":1,"dtype":2}}'),
    b'{"a":{"dtype":"I32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}',
    after_its_like("[1]", '{"dtype":"U8","shape":[1],"data_offsets":[1,2],"x":1}'),
    text('{"dtype":{"F32":null},"shape":[1],"data_offsets":[0,4]}'),
    text('{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":' + "[" * 124 + "]" * 124 + "}"),
]
BAD = [
    after_its_like("[]", '{"dtype":"U8","shape":{},"data_offsets":[1,2]}'),
    after_its_like("[1]", '{"dtype":"U8","shape":[true],"data_offsets":[1,2]}'),
    after_its_like("[1]", '{"dtype":"U8","shape":[1],"data_offsets":[true,2]}'),
    b"",
    b"[]",
    b"null",
    b"{}\0",
    b"\xef\xbb\xbf{}",
    b"{",
    b'{"a":1}',
    b'{"a":null}',
    b"\xff{}",
    b'{"a":{}}',
    b'{"__metadata__":{"a":1}}',
    b'{"__metadata__":[]}',
    b'{"__metadata__":{},"__metadata__":{}}',
    text('{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}'),
    text('{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}'),
    text('{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}'),
    text('{"dtype":"F32","shape":[-0],"data_offsets":[0,4]}'),
    text('{"dtype":"F32","shape":[1],"data_offsets":[0,4,4]}'),
    text('{"dtype":"F32","shape":[true],"data_offsets":[0,4]}'),
    text('{"dtype":"F32","shape":1,"data_offsets":[0,4]}'),
    text('{"dtype":"f32","shape":[1],"data_offsets":[0,4]}'),
    text('{"dtype":"I4","shape":[8],"data_offsets":[0,4]}'),
    text('{"dtype":"F4","shape":[1],"data_offsets":[0,1]}'),
    text('{"dtype":"F32","shape":[1],"data_offsets":[4,0]}'),
    text('{"dtype":"F32","shape":[2],"data_offsets":[0,4]}'),
    text('{"dtype":"U8","shape":[3],"data_offsets":[1,4]}'),
    text('{"dtype":"U8","shape":[3],"data_offsets":[0,3]}'),
    text('{"dtype":"U8","shape":[5],"data_offsets":[0,5]}'),
    text('{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":NaN}'),
    text('{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1e999}'),
    text('{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":' + "1" * 400 + "}"),
    text('{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":' + "[" * 130 + "]" * 130 + "}"),
    text('{"dtype":"F32","shape":[18446744073709551615,2,0],"data_offsets":[0,4]}'),
    text('{"dtype":"F32","shape":[18446744073709551616],"data_offsets":[0,4]}'),
    text('{"dtype":"F32","shape":[1],"data_offsets":[0,4],"\\ud800":1}'),
    b'{"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}}',
    b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}}',
    text('{"dtype":"F32","shape":[1]}'),
    text('["F32",[1]]'),
    text('["F32",[1],[0,4],1]'),
]


@pytest.mark.parametrize("raw", GOOD)
def test_accepted_as_the_reference_accepts(raw: bytes) -> None:
    data = b"\0\0\0\0" if b"dtype" in raw or b"F32" in raw else b""
    assert agree(raw, data)


@pytest.mark.parametrize("raw", STRICT)
def test_what_only_this_reader_refuses(raw: bytes) -> None:
    assert reference(raw, b"\0\0\0\0") is not None and ours(raw, b"\0\0\0\0") is None


def test_a_name_that_stands_there_twice_is_named() -> None:
    with pytest.raises(InputError, match="'a' stands there twice"):
        parse_header(STRICT[2], "f")


def test_offsets_past_64_bits_are_refused_without_a_file() -> None:
    size = 2**61 - 1
    raw = json.dumps(
        {
            f"t{n}": {"dtype": "U8", "shape": [size], "data_offsets": [n * size, (n + 1) * size]}
            for n in range(9)
        }
    )
    with pytest.raises(InputError, match="no whole number"):
        parse_header(raw.encode(), "f")


@pytest.mark.parametrize("raw", BAD)
def test_refused_as_the_reference_refuses(raw: bytes) -> None:
    assert not agree(raw, b"\0\0\0\0") and not agree(raw, b"\0\0\0\0" if b"[0,4]" in raw else b"")


@pytest.mark.parametrize("dtype", [*DTYPES, "I4", "U4", "F8", "C128", "bf16", ""])
def test_dtypes_are_those_of_the_reference(dtype: str) -> None:
    data = b"\0" * DTYPES.get(dtype, 8)
    entry = {"dtype": dtype, "shape": [8], "data_offsets": [0, len(data)]}
    assert agree(json.dumps({"a": entry}).encode(), data) is (dtype in DTYPES)


entries = st.fixed_dictionaries(
    {},
    optional={
        "dtype": st.sampled_from(["F32", "U8", "F4", "F6_E2M3", "BF16", "X", 3, None]),
        "shape": st.lists(st.one_of(st.integers(0, 4), st.sampled_from([-1, 1.5, True, 2**64])), max_size=3),
        "data_offsets": st.lists(st.integers(0, 12), min_size=1, max_size=3),
        "other": st.recursive(
            st.none() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=2)
        ),
    },
)
sound = st.lists(
    st.tuples(st.sampled_from(["F32", "U8", "BF16", "F4"]), st.lists(st.integers(0, 3), max_size=2)),
    max_size=4,
)


@given(
    st.dictionaries(st.text(max_size=4), entries | st.just(ONE), max_size=4),
    st.integers(0, 12),
    st.booleans(),
)
def test_fuzzed_objects(tensors: dict[str, Any], data: int, ascii_only: bool) -> None:
    try:
        raw = json.dumps(tensors, ensure_ascii=ascii_only).encode()
    except UnicodeEncodeError:
        return
    agree(raw, b"\0" * data)


@given(sound, st.data())
def test_fuzzed_bytes_of_a_sound_header(parts: list[tuple[str, list[int]]], data: st.DataObject) -> None:
    tensors = []
    for number, (dtype, shape) in enumerate(parts):
        bits = DTYPES[dtype]
        for size in shape:
            bits *= size
        if bits % 8 == 0:
            tensors.append(TensorEntry(f"t{number}", dtype, tuple(shape), bits // 8))
    raw = header_bytes([tensor[:3] for tensor in tensors], {"format": "pt"})[8:]
    payload = b"\0" * sum(tensor.nbytes for tensor in tensors)
    assert agree(raw, payload)
    mutant = bytearray(raw)
    for _ in range(data.draw(st.integers(1, 3))):
        mutant[data.draw(st.integers(0, len(mutant) - 1))] = data.draw(st.integers(0, 255))
    agree(bytes(mutant), payload)


@pytest.mark.parametrize("cut", [0, 4, 7, 8, 20])
def test_a_truncated_file_is_one_sentence(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes((struct.pack("<Q", 60) + json.dumps({"a": ONE}).encode())[:cut])
    with pytest.raises(InputError, match=r"x\.safetensors: .*(truncated|at least 8 bytes)"):
        read_header(path)


def test_an_absurd_length_is_refused_before_it_is_read() -> None:
    with pytest.raises(InputError, match="above the format's limit"):
        header_length(b"\xff" * 8, "f")


def test_a_header_only_file_with_a_stump_of_data_is_refused(tmp_path: Path) -> None:
    raw = header_bytes([("a", "F32", (1,))], {"k3repro": "header-only"})
    path = tmp_path / "x.safetensors"
    path.write_bytes(raw)
    assert read_header(path).header_only
    path.write_bytes(raw + b"\0\0")
    with pytest.raises(InputError, match="truncated"):
        read_header(path)
    unmarked = header_bytes([("a", "F32", (1,))], {})
    path.write_bytes(unmarked)
    with pytest.raises(InputError, match="truncated"):
        read_header(path)
