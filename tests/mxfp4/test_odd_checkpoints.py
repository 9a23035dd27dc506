"""Checkpoints and destinations nobody writes on purpose: nothing crashes, nothing is half done."""

from __future__ import annotations

import json
import resource
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_checkpoint import MXFP4_CONFIG, checkpoint, expert, write

from k3repro.errors import InputError, MachineError, UsageError
from k3repro.mxfp4 import (
    pack_uint4b8,
    plan_requant,
    requant,
    requantise,
    requantise_reference,
    unpack_uint4b8,
)
from k3repro.mxfp4.checkpoint import open_checkpoint
from k3repro.shards import parse_header


def experts() -> dict[str, np.ndarray]:
    return expert("m.a", 32, 64, np.random.default_rng(0))


@pytest.mark.parametrize("shape", [(0, 64), (16, 0), (0, 0), (0, 16, 64), (2, 0, 64)])
def test_tensors_without_elements(tmp_path: Path, shape: tuple[int, ...]) -> None:
    packed = np.zeros((*shape[:-1], shape[-1] // 2), np.uint8)
    scales = np.zeros((*shape[:-1], shape[-1] // 32), np.uint8)
    source = write(tmp_path / "src", [{"m.a.weight_packed": packed, "m.a.weight_scale": scales}])
    report = requant(plan_requant(source, "mse"), tmp_path / "out")
    assert report["converted_weights"] == 0 and report["int4_bits_per_weight"] is None
    codes = requantise_reference(packed, scales).codes
    assert codes.shape == shape
    assert unpack_uint4b8(pack_uint4b8(codes)).shape == shape
    words, bits = requantise(packed, scales)
    assert words.shape == (*shape[:-1], shape[-1] // 8) and bits.shape == scales.shape


def test_the_largest_scale_byte_has_a_finite_error(tmp_path: Path) -> None:
    packed = np.arange(64, dtype=np.uint8).reshape(4, 16) * 3
    parts = {"m.a.weight_packed": packed, "m.a.weight_scale": np.full((4, 1), 254, np.uint8)}
    report = requant(plan_requant(write(tmp_path / "src", [parts]), "mse"), tmp_path / "out")
    assert 0 < report["relative_rms"] < 0.1
    json.loads((tmp_path / "out" / "requant-report.json").read_text(), parse_constant=pytest.fail)


@pytest.mark.parametrize("dtype", ["u1", "f8", "f4"])
def test_a_stored_shape_of_another_dtype(tmp_path: Path, dtype: str) -> None:
    source = write(tmp_path / "src", [{**experts(), "m.a.weight_shape": np.array([32, 64, 1], dtype)}])
    with pytest.raises(InputError, match="weight_shape is"):
        plan_requant(source)


def test_the_same_weights_in_both_layouts(tmp_path: Path) -> None:
    twice = {"m.a_blocks": np.zeros((32, 2, 16), np.uint8), "m.a_scales": np.zeros((32, 2), np.uint8)}
    with pytest.raises(InputError, match="would get the name"):
        plan_requant(write(tmp_path / "src", [{**experts(), **twice}]))


@pytest.mark.parametrize("groups", [{"a": 5}, [1], "x"])
def test_config_groups_of_another_kind(tmp_path: Path, groups: Any) -> None:
    config = {"model_type": "x", "quantization_config": {**MXFP4_CONFIG, "config_groups": groups}}
    with pytest.raises(InputError, match="config_groups"):
        plan_requant(write(tmp_path / "src", [experts()], config))


def test_json_nested_past_any_depth(tmp_path: Path) -> None:
    source = write(tmp_path / "src", [experts()])
    (source / "config.json").write_text("[" * 100_000)
    with pytest.raises(InputError, match="not valid JSON"):
        plan_requant(source)
    (source / "model.safetensors.index.json").write_text("[" * 100_000)
    with pytest.raises(InputError, match="the index is not JSON"):
        open_checkpoint(source)


@pytest.mark.parametrize("name", ["x" * 5000, "\ud800.safetensors", "a/b", ""])
def test_shard_names_that_are_no_file_names(tmp_path: Path, name: str) -> None:
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": name}}))
    with pytest.raises(InputError):
        open_checkpoint(tmp_path)


@pytest.mark.parametrize(
    "header",
    [
        b'{"a":{"dtype":[],"shape":[1],"data_offsets":[0,4]}}',
        b'{"a":{"dtype":{},"shape":[1],"data_offsets":[0,4]}}',
        b'{"__metadata__":[]}',
        b'{"\\ud800":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}',
    ],
)
def test_headers_the_format_refuses(header: bytes) -> None:
    with pytest.raises(InputError):
        parse_header(header, "s")


def test_metadata_null_is_none() -> None:
    header = parse_header(b'{"__metadata__":null}', "s")
    assert (header.entries, header.metadata) == ((), {})


def test_a_destination_inside_the_source(tmp_path: Path) -> None:
    source = checkpoint(tmp_path / "src", shards=1)
    before = {path.name for path in source.iterdir()}
    requant(plan_requant(source), source / "out")
    assert {path.name for path in (source / "out").iterdir()} == before | {"requant-report.json"}
    assert {path.name for path in source.iterdir()} == before | {"out"}


def test_a_link_to_nowhere_is_not_overwritten(tmp_path: Path) -> None:
    link = tmp_path / "out"
    link.symlink_to(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="already there"):
        requant(plan_requant(checkpoint(tmp_path / "src", shards=1)), link)
    assert link.readlink() == tmp_path / "nowhere" and not (tmp_path / "out.partial").exists()


def test_a_limit_on_file_size_stops_and_a_later_run_completes(tmp_path: Path) -> None:
    plan = plan_requant(checkpoint(tmp_path / "src", shards=3, n=128, k=512))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        with pytest.raises(MachineError, match="cannot be written") as stopped:
            requant(plan, tmp_path / "out")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert ".safetensors: model.layers" in str(stopped.value) and not (tmp_path / "out").exists()
    requant(plan, tmp_path / "out")
    requant(plan, tmp_path / "clean")
    files = [{p.name: p.read_bytes() for p in (tmp_path / name).glob("*.s*")} for name in ("out", "clean")]
    assert files[0] == files[1] and len(files[0]) == 4


def test_killed_after_the_last_rename_the_same_command_only_cleans_up(tmp_path: Path) -> None:
    """A kill between the final name and the removal of the state leaves a complete result."""
    plan = plan_requant(checkpoint(tmp_path / "src", shards=1))
    report = requant(plan, tmp_path / "out")
    state = tmp_path / "out" / ".k3repro-requant"
    state.mkdir()
    (state / "plan.json").write_text(json.dumps({"fingerprint": plan.fingerprint}))
    with pytest.raises(UsageError, match="already there"):
        requant(plan_requant(plan.source, "mse"), tmp_path / "out")
    again = requant(plan, tmp_path / "out")
    assert again["source_fingerprint"] == report["source_fingerprint"] and not state.exists()
    with pytest.raises(UsageError, match="already there"):
        requant(plan, tmp_path / "out")
