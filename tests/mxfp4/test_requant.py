from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tiny_checkpoint import MXFP4_CONFIG, checkpoint, expert, write

from k3repro.errors import InputError, MachineError, UsageError
from k3repro.mxfp4 import _convert as convert_module
from k3repro.mxfp4 import _requant as requant_module
from k3repro.mxfp4 import (
    bf16_values,
    decode,
    partial_path,
    plan_requant,
    requant,
    requantise_reference,
    unpack_uint4b8,
)
from k3repro.mxfp4 import checkpoint as checkpoint_module

EXPERT = "model.layers.0.block_sparse_moe.experts.0.w1"


def tensors(folder: Path) -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = {}
    for path in sorted(folder.glob("*.safetensors")):
        raw = path.read_bytes()
        length = int.from_bytes(raw[:8], "little")
        for name, entry in json.loads(raw[8 : 8 + length]).items():
            if name == "__metadata__":
                continue
            begin, end = (8 + length + o for o in entry["data_offsets"])
            kind = {"I32": "<i4", "BF16": "<u2", "U8": "u1", "I64": "<i8", "F16": "<f2", "F32": "<f4"}[
                entry["dtype"]
            ]
            found[name] = np.frombuffer(raw[begin:end], kind).reshape(entry["shape"])
    return found


def snapshot(folder: Path) -> dict[str, bytes]:
    files = {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()}
    files.pop("requant-report.json")
    return files


@pytest.mark.parametrize("rule", ["amax7", "mse"])
def test_converts_what_is_mxfp4_and_copies_the_rest(tmp_path: Path, rule: Any) -> None:
    source, target = checkpoint(tmp_path / "src"), tmp_path / "out"
    report = requant(plan_requant(source, rule), target)
    before, after = tensors(source), tensors(target)
    for name, array in before.items():
        if not name.endswith((".weight_packed", ".weight_scale")):
            assert after[name].tobytes() == array.tobytes()
    for name in (n.removesuffix(".weight_packed") for n in before if n.endswith(".weight_packed")):
        packed, scales = before[f"{name}.weight_packed"], before[f"{name}.weight_scale"]
        wanted = requantise_reference(packed, scales, rule)
        assert np.array_equal(unpack_uint4b8(after[f"{name}.weight_packed"]), wanted.codes)
        assert np.array_equal(bf16_values(after[f"{name}.weight_scale"]), wanted.scales)
        assert after[f"{name}.weight_shape"].tolist() == [64, 128]
    assert report["int4_bits_per_weight"] == 4.5
    assert report["converted_weights"] == 6 * 64 * 128
    assert 0.05 < report["relative_rms"] < 0.12
    assert (target / "tokenizer.json").read_bytes() == (source / "tokenizer.json").read_bytes()
    assert not partial_path(target).exists()


def test_error_per_tensor_is_the_true_one(tmp_path: Path) -> None:
    source, target = checkpoint(tmp_path / "src"), tmp_path / "out"
    report = requant(plan_requant(source, "amax7"), target)
    before, after = tensors(source), tensors(target)
    for row in report["tensors"]:
        name = row["tensor"]
        weights = decode(before[f"{name}.weight_packed"], before[f"{name}.weight_scale"]).astype(float)
        codes = unpack_uint4b8(after[f"{name}.weight_packed"]).reshape(64, 4, 32)
        got = (codes * bf16_values(after[f"{name}.weight_scale"])[..., None]).reshape(64, 128)
        assert row["error_blocks"] == 256
        assert row["relative_rms"] == pytest.approx(np.linalg.norm(weights - got) / np.linalg.norm(weights))


def test_index_and_config_describe_the_result(tmp_path: Path) -> None:
    source, target = checkpoint(tmp_path / "src"), tmp_path / "out"
    requant(plan_requant(source), target)
    index = json.loads((target / "model.safetensors.index.json").read_text())
    assert set(index["weight_map"]) == set(tensors(target))
    assert index["metadata"]["total_size"] == sum(a.nbytes for a in tensors(target).values())
    for name, file in index["weight_map"].items():
        assert name in load_file_names(target / file)
    config = json.loads((target / "config.json").read_text())["quantization_config"]
    assert config["format"] == "pack-quantized"
    assert config["ignore"] == MXFP4_CONFIG["ignore"]
    group = config["config_groups"]["group_0"]
    assert group["targets"] == ["Linear"]
    assert (group["weights"]["num_bits"], group["weights"]["type"], group["weights"]["group_size"]) == (
        4,
        "int",
        32,
    )


def load_file_names(path: Path) -> set[str]:
    raw = path.read_bytes()
    return set(json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")]))


def test_gpt_oss_blocks_and_a_single_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    source = tmp_path / "src"
    source.mkdir()
    blocks = rng.integers(0, 256, (2, 32, 3, 16), dtype=np.uint8)
    scales = rng.integers(118, 126, (2, 32, 3), dtype=np.uint8)
    name = "model.layers.0.mlp.experts.gate_up_proj"
    save_file({f"{name}_blocks": blocks, f"{name}_scales": scales}, source / "model.safetensors")
    config = {
        "model_type": "gpt_oss",
        "quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": ["x"]},
    }
    (source / "config.json").write_text(json.dumps(config))
    requant(plan_requant(source), tmp_path / "out")
    after = tensors(tmp_path / "out")
    wanted = requantise_reference(blocks.reshape(2, 32, 48), scales, "amax7")
    assert np.array_equal(unpack_uint4b8(after[f"{name}.weight_packed"]), wanted.codes)
    assert after[f"{name}.weight_shape"].tolist() == [2, 32, 96]
    assert json.loads((tmp_path / "out/config.json").read_text())["quantization_config"]["ignore"] == ["x"]
    assert not (tmp_path / "out/model.safetensors.index.json").exists()


def test_several_jobs_give_the_same_bytes(tmp_path: Path) -> None:
    source = checkpoint(tmp_path / "src", shards=4)
    requant(plan_requant(source, "mse"), tmp_path / "one")
    seen: list[int] = []
    requant(plan_requant(source, "mse"), tmp_path / "two", jobs=2, progress=seen.append)
    assert snapshot(tmp_path / "one") == snapshot(tmp_path / "two")
    assert sum(seen) == sum(a.nbytes for a in tensors(source).values())


def test_never_overwrites(tmp_path: Path) -> None:
    source = checkpoint(tmp_path / "src")
    (tmp_path / "out").mkdir()
    with pytest.raises(UsageError, match="already there"):
        requant(plan_requant(source), tmp_path / "out")
    partial_path(tmp_path / "new").mkdir()
    (partial_path(tmp_path / "new") / "mine.txt").write_text("x")
    with pytest.raises(UsageError, match="holds another conversion"):
        requant(plan_requant(source), tmp_path / "new")
    assert (partial_path(tmp_path / "new") / "mine.txt").read_text() == "x"


def test_resumes_after_a_failure_and_keeps_finished_shards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = checkpoint(tmp_path / "src"), tmp_path / "out"
    real, calls = requant_module.convert_shard, []

    def failing(plan: Any, shard: Any, *rest: Any) -> Any:
        calls.append(shard.header.path.name)
        if len(calls) == 3:
            raise MachineError("power cut")
        return real(plan, shard, *rest)

    monkeypatch.setattr(requant_module, "convert_shard", failing)
    with pytest.raises(MachineError, match="power cut"):
        requant(plan_requant(source), target)
    assert not target.exists()
    with pytest.raises(UsageError, match="holds another conversion"):
        requant(plan_requant(source, "mse"), target)
    report = requant(plan_requant(source), target)
    assert calls[3:] == [calls[2]]
    assert report["resumed_shards"] == 2
    assert len(report["tensors"]) == 6
    requant(plan_requant(source), tmp_path / "whole")
    assert snapshot(target) == snapshot(tmp_path / "whole")


def test_a_finished_shard_that_was_damaged_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = checkpoint(tmp_path / "src"), tmp_path / "out"
    real = requant_module._finish
    monkeypatch.setattr(requant_module, "_finish", lambda *_: (_ for _ in ()).throw(MachineError("cut")))
    with pytest.raises(MachineError):
        requant(plan_requant(source), target)
    monkeypatch.setattr(requant_module, "_finish", real)
    shard = next(partial_path(target).glob("*.safetensors"))
    shard.write_bytes(shard.read_bytes()[:-3])
    assert requant(plan_requant(source), target)["resumed_shards"] == 2
    requant(plan_requant(source), tmp_path / "whole")
    assert snapshot(target) == snapshot(tmp_path / "whole")


def test_kill_9_leaves_nothing_under_the_final_name_and_the_next_run_completes(tmp_path: Path) -> None:
    source, target = checkpoint(tmp_path / "src", shards=16, n=512, k=512), tmp_path / "out"
    code = "import sys; from pathlib import Path; from k3repro.mxfp4 import *; " \
        "requant(plan_requant(Path(sys.argv[1]), 'mse'), Path(sys.argv[2]))"  # fmt: skip
    command = [sys.executable, "-c", code, str(source), str(target)]
    process = subprocess.Popen(command)
    deadline = time.monotonic() + 600
    while len(list(partial_path(target).glob("model-*"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.002)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert partial_path(target).exists()
    assert not target.exists()
    report = requant(plan_requant(source, "mse"), target)
    assert 2 <= report["resumed_shards"] < 16  # the last one may not have been verified
    requant(plan_requant(source, "mse"), tmp_path / "whole")
    assert snapshot(target) == snapshot(tmp_path / "whole")


def test_two_runs_at_once_are_refused(tmp_path: Path) -> None:
    source, target = checkpoint(tmp_path / "src"), tmp_path / "out"
    with requant_module._only_one(partial_path(target)), pytest.raises(UsageError, match="another process"):
        requant(plan_requant(source), target)


def test_what_is_read_back_is_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mutant: one bit of a shard flips between its sync and the check."""
    source, target = checkpoint(tmp_path / "src"), tmp_path / "out"
    real = os.fsync

    def rot(descriptor: int) -> None:
        real(descriptor)
        last = os.fstat(descriptor).st_size - 40
        if last > 1000:
            os.pwrite(descriptor, bytes([os.pread(descriptor, 1, last)[0] ^ 1]), last)

    monkeypatch.setattr(checkpoint_module.os, "fsync", rot)
    with pytest.raises(MachineError, match="differ from what was written"):
        requant(plan_requant(source), target)
    assert not list(partial_path(target).glob("*.safetensors"))
    assert not target.exists()


def test_a_full_disk_is_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = checkpoint(tmp_path / "src"), tmp_path / "out"
    free = shutil.disk_usage(tmp_path)._replace(free=1000)
    with monkeypatch.context() as patch:
        patch.setattr(requant_module.shutil, "disk_usage", lambda _: free)
        with pytest.raises(MachineError, match="GB are free"):
            requant(plan_requant(source), target)

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(convert_module.ShardWriter, "write", full)
    with pytest.raises(MachineError, match=r"model-00001-of-000003\.safetensors: .*: no space is left"):
        requant(plan_requant(source), target)
    assert not target.exists()
    assert not [p for p in partial_path(target).rglob("*") if "safetensors" in p.name]


def bad(tmp_path: Path, change: dict[str, np.ndarray | None], **options: Any) -> None:
    rng = np.random.default_rng(0)
    shard: dict[str, np.ndarray] = {**expert("e.w1", 32, 64, rng), "norm": np.ones(4, dtype=np.float32)}
    for name, array in change.items():
        if array is None:
            del shard[name]
        else:
            shard[name] = array
    source = write(tmp_path / "src", [shard])
    requant(plan_requant(source, **options), tmp_path / "out")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"e.w1.weight_scale": None}, "its scale tensor e.w1.weight_scale is missing"),
        ({"e.w1.weight_scale": np.zeros((32, 3), np.uint8)}, r"scales \[32, 3\] do not fit \[32, 32\]"),
        ({"e.w1.weight_scale": np.zeros((16, 2), np.uint8)}, r"scales \[16, 2\] do not fit"),
        ({"e.w1.weight_scale": np.zeros((32, 2), np.float32)}, "its scales are F32"),
        ({"e.w1.weight_packed": np.zeros((32, 24), np.uint8)}, "K = 48 is not a multiple of 32"),
        ({"e.w1.weight_packed": np.zeros((32, 31), np.uint8)}, "K = 62 is not a multiple of 32"),
        ({"e.w1.weight_packed": np.zeros(32, np.uint8)}, "not a matrix"),
        ({"e.w1.weight_scale": np.full((32, 2), 255, np.uint8)}, "64 of 64 scale bytes are 0xFF"),
        ({"e.w1.weight_shape": np.array([32, 63])}, r"weight_shape says \[32, 63\]"),
    ],
)
def test_bad_tensors_name_themselves_and_their_shard(
    tmp_path: Path, change: dict[str, np.ndarray | None], message: str
) -> None:
    with pytest.raises(InputError, match=rf"model-00001-of-000001\.safetensors: e\.w1.*{message}"):
        bad(tmp_path, change)
    assert not (tmp_path / "out").exists()


def test_other_bad_checkpoints(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no MXFP4 tensors"):
        bad(tmp_path / "a", {"e.w1.weight_packed": None, "e.w1.weight_scale": None})
    source = checkpoint(tmp_path / "c")
    (source / "config.json").write_text("{}")
    with pytest.raises(InputError, match="no quantization_config"):
        plan_requant(source)
    (source / "config.json").unlink()
    with pytest.raises(InputError, match="cannot be read"):
        plan_requant(source)
    with pytest.raises(InputError, match="'best' is not known"):
        plan_requant(source, "best")  # type: ignore[arg-type]
    assert load_file(next(source.glob("*.safetensors")))


def test_int4_checkpoints_are_not_converted_twice(tmp_path: Path) -> None:
    source = checkpoint(tmp_path / "src")
    requant(plan_requant(source), tmp_path / "out")
    with pytest.raises(InputError, match="no MXFP4 tensors"):
        plan_requant(tmp_path / "out")


def test_text_config_is_rewritten_too(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    config = {"model_type": "kimi_k3", "text_config": {"quantization_config": MXFP4_CONFIG, "hidden_size": 8}}
    source = write(tmp_path / "src", [expert("e.w1", 32, 64, rng)], config)
    requant(plan_requant(source), tmp_path / "out")
    got = json.loads((tmp_path / "out/config.json").read_text())["text_config"]
    assert got["quantization_config"]["format"] == "pack-quantized"
    assert got["hidden_size"] == 8


def test_memory_stays_below_one_tensor(tmp_path: Path) -> None:
    """One tensor of 134 MB: the peak grows by less than that over an idle interpreter."""
    source = write(tmp_path / "src", [expert("e.w1", 16384, 16384, np.random.default_rng(0))])
    # VmHWM belongs to the program that runs; ru_maxrss would begin with the peak of whoever started it
    code = (
        "import re, sys; from pathlib import Path; from k3repro.mxfp4 import *\n"
        "peak = lambda: int(re.search(r'VmHWM:\\s+(\\d+)', Path('/proc/self/status').read_text())[1])\n"
        "plan = plan_requant(Path(sys.argv[1]))\n"
        "before = peak()\n"
        "requant(plan, Path(sys.argv[2]))\n"
        "print((peak() - before) * 1024)"
    )
    command = [sys.executable, "-c", code, str(source), str(tmp_path / "out")]
    tensor = 16384 * 16384 // 2
    grown = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    print(f"grown by {grown / 1e6:.1f} MB, a tensor is {tensor / 1e6:.1f} MB")
    assert 1e6 < grown < tensor  # below: nothing was measured
