from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file
from tiny_checkpoint import checkpoint

from k3repro.errors import InputError
from k3repro.mxfp4.checkpoint import ShardReader, ShardWriter, open_checkpoint, read_header
from k3repro.shards import INDEX as INDEX_NAME
from k3repro.shards import header_bytes, parse_header


def test_reads_what_safetensors_writes(tmp_path: Path) -> None:
    tensors = {"b": np.arange(6, dtype=np.int64).reshape(2, 3), "a": np.ones((3, 5), dtype=np.float16)}
    save_file(tensors, tmp_path / "x.safetensors", metadata={"format": "pt"})
    header = read_header(tmp_path / "x.safetensors")
    assert header.metadata == {"format": "pt"}
    with ShardReader(header) as reader:
        for name, array in tensors.items():
            assert header.tensors[name].shape == array.shape
            assert reader.read(name).tobytes() == array.tobytes()
            assert b"".join(p.tobytes() for p in reader.pieces(name, 7)) == array.tobytes()


def test_safetensors_reads_what_we_write(tmp_path: Path) -> None:
    first, empty = np.arange(32, dtype=np.uint8).reshape(4, 8), np.empty((0, 3), dtype=np.float32)
    with ShardWriter(
        tmp_path / "x.safetensors", [("z", "U8", (4, 8)), ("e", "F32", (0, 3))], {"k": "v"}
    ) as writer:
        writer.write(first[:2])
        writer.write(first[2:])
        writer.write(empty)
    with safe_open(tmp_path / "x.safetensors", "numpy") as opened:
        assert opened.metadata() == {"k": "v"}
        assert np.array_equal(opened.get_tensor("z"), first)
        assert opened.get_tensor("e").shape == (0, 3)


def test_a_failed_shard_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="1 of 2 bytes were given"):  # noqa: SIM117
        with ShardWriter(tmp_path / "x.safetensors", [("z", "U8", (2,))]) as writer:
            writer.write(b"1")
    with pytest.raises(RuntimeError), ShardWriter(tmp_path / "y.safetensors", [("z", "U8", (2,))]):
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (b"[]", "not a JSON object"),
        (b"{", "not valid"),
        (b'{"a": {"dtype": "U8", "shape": [2]}}', "needs dtype, shape and data_offsets"),
        (b'{"a": {"dtype": "U8", "shape": [-2], "data_offsets": [0, 2]}}', "no whole number"),
        (b'{"a": {"dtype": "I4", "shape": [2], "data_offsets": [0, 1]}}', "unknown dtype 'I4'"),
        (b'{"a": {"dtype": "F4", "shape": [3], "data_offsets": [0, 1]}}', "whole bytes"),
        (b'{"a": {"dtype": "U8", "shape": [2], "data_offsets": [0, 3]}}', "takes 3 bytes, its shape"),
        (b'{"a": {"dtype": "U8", "shape": [2], "data_offsets": [1, 3]}}', "leaves a hole"),
        (
            b'{"a": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]},'
            b' "b": {"dtype": "U8", "shape": [2], "data_offsets": [1, 3]}}',
            "overlaps",
        ),
        (b'{"__metadata__": {"a": 1}}', "maps strings to strings"),
        (b'{"a": 1, "a": 2}', "twice"),
        (b"[" * 100_000, "not valid"),
    ],
)
def test_hostile_headers_are_refused(header: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_header(header, where="s")


@given(st.binary(max_size=200))
def test_random_bytes_never_crash_the_parser(raw: bytes) -> None:
    try:
        parse_header(raw, "s")
    except InputError:
        return


def test_a_shard_that_ends_early_names_itself_and_the_tensor(tmp_path: Path) -> None:
    source = checkpoint(tmp_path / "src")
    shard = source / "model-00002-of-000003.safetensors"
    whole = shard.read_bytes()
    for cut in (1, 5000, len(whole) - 20, len(whole) - 4):
        shard.write_bytes(whole[:-cut])
        with pytest.raises(InputError, match=r"model-00002-of-000003\.safetensors"):
            open_checkpoint(source)
        with pytest.raises((SafetensorError, OSError)), safe_open(shard, "numpy"):
            pass
    shard.write_bytes(whole[:-1])
    with pytest.raises(InputError, match=r"safetensors: truncated"):
        open_checkpoint(source)
    shard.write_bytes(whole + b"x")
    with pytest.raises(InputError, match="1 bytes after the last tensor"):
        open_checkpoint(source)


def test_index_and_headers_must_agree(tmp_path: Path) -> None:
    source = checkpoint(tmp_path / "src")
    index = json.loads((source / INDEX_NAME).read_text())

    def refused(weight_map: dict[str, str], message: str) -> None:
        (source / INDEX_NAME).write_text(json.dumps({"weight_map": weight_map}))
        with pytest.raises(InputError, match=message):
            open_checkpoint(source)

    names = index["weight_map"]
    first = next(iter(names))
    refused({**names, "ghost": names[first]}, "tensor 'ghost' is not in")
    refused({k: v for k, v in names.items() if k != first}, "the index says no shard")
    refused({**names, "ghost": "model-9.safetensors"}, "1 shards are missing")
    refused({**names, "ghost": "../../etc/passwd"}, "outside its folder")
    (source / INDEX_NAME).write_text("{}")
    with pytest.raises(InputError, match="no weight_map"):
        open_checkpoint(source)


def test_no_checkpoint_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="neither model"):
        open_checkpoint(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"\xff" * 16)
    with pytest.raises(InputError, match="above the format's limit"):
        open_checkpoint(tmp_path)


def test_headers_are_padded_to_eight_bytes() -> None:
    for length in range(1, 9):
        assert len(header_bytes([("n" * length, "U8", (1,))], {})) % 8 == 0
