from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner

from k3repro.cli import main
from k3repro.cli.requant import requant
from k3repro.store import Store

sys.path.insert(0, str(Path(__file__).parents[1] / "mxfp4"))

from tiny_checkpoint import checkpoint, expert, write


def test_help_has_examples_and_every_option() -> None:
    text = CliRunner().invoke(requant, ["--help"]).output
    assert "k3repro requant Kimi-K3/ Kimi-K3-int4/ --rule mse" in text
    for option in ("--rule", "--jobs", "--error-blocks", "--dry-run", "--estimate", "--store", "--json"):
        assert option in text


def test_says_in_one_line_what_it_did(tmp_path: Path) -> None:
    source = checkpoint(tmp_path / "src")
    result = CliRunner().invoke(requant, [str(source), str(tmp_path / "out"), "--rule", "mse"])
    assert result.exit_code == 0, result.output
    assert "6 tensors, 49,152 weights in 4.50 bits each, relative RMS error 7." in result.output
    assert (tmp_path / "out/requant-report.json").exists()


def test_json_and_a_sealed_report(tmp_path: Path) -> None:
    source = checkpoint(tmp_path / "src")
    store = tmp_path / "artifacts"
    arguments = [str(source), str(tmp_path / "out"), "--json", "--store", str(store)]
    result = CliRunner().invoke(requant, arguments)
    report = json.loads(result.output)
    assert report["int4_bits_per_weight"] == 4.5
    artifact = Store(store).find(report["artifact"])
    assert artifact.tier == "unverified"
    assert artifact.subject.startswith("checkpoint:kimi_linear-")
    assert len(artifact.rows("tensors")) == 6
    assert str(tmp_path) not in json.dumps(artifact.parameters)


def test_dry_run_writes_nothing(tmp_path: Path) -> None:
    source = checkpoint(tmp_path / "src")
    result = CliRunner().invoke(requant, [str(source), str(tmp_path / "out"), "--dry-run", "--json"])
    facts = json.loads(result.output)
    assert facts["mxfp4_bytes"] == 49_152 // 32 * 17
    assert facts["int4_bytes"] == 49_152 // 32 * 18
    assert sorted(p.name for p in tmp_path.iterdir()) == ["src"]


def test_an_estimate_leaves_nothing_and_grows_with_the_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clocks that tick at every look: a sample takes 8 s of a processor and half a second of the disk."""
    processor, wall = itertools.count(0, 8), itertools.count(0, 0.5)
    clocks = SimpleNamespace(process_time=lambda: next(processor), perf_counter=lambda: next(wall))
    monkeypatch.setattr("k3repro.mxfp4._estimate.time", clocks)
    monkeypatch.setattr("k3repro.mxfp4._estimate.usable_cores", lambda: 2)
    facts = []
    for shards in (2, 8):
        source = checkpoint(tmp_path / f"src{shards}", shards=shards)
        command = [str(source), str(tmp_path / "out"), "--estimate", "--jobs", "3", "--json"]
        facts.append(json.loads(CliRunner().invoke(requant, command).output))
    few, many = facts
    assert many["sample_bytes"] == few["sample_bytes"] == 2 * 64 * 128 // 32 * 17
    assert few["processor_s"] > 2 * 8
    assert many["processor_s"] == pytest.approx(4 * few["processor_s"], abs=0.3)
    assert many["disk_s"] == pytest.approx(4 * few["disk_s"], abs=0.2)
    assert many["wall_s"] == pytest.approx(many["processor_s"] / 2, abs=0.1)  # three jobs share two cores
    assert many["free_bytes"] > many["checkpoint_bytes"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["src2", "src8"]


@pytest.mark.parametrize(
    ("prepare", "code", "message"),
    [
        ("exists", 2, "already there"),
        ("nan", 2, r"model-00001-of-000001.safetensors: e.w1.weight_packed: 4 of 4 scale bytes are 0xFF"),
        ("nowhere", 2, "neither model.safetensors.index.json nor model.safetensors is there"),
    ],
)
def test_errors_are_one_line_and_an_exit_code(
    tmp_path: Path, prepare: str, code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "src"
    if prepare == "nan":
        tensors = expert("e.w1", 2, 64, np.random.default_rng(0))
        tensors["e.w1.weight_scale"][:] = 255
        write(source, [tensors])
    elif prepare == "exists":
        checkpoint(source)
        (tmp_path / "out").mkdir()
    with pytest.raises(SystemExit) as ended:
        main(["requant", str(source), str(tmp_path / "out")])
    assert ended.value.code == code
    printed = capsys.readouterr().err
    assert message in printed
    assert printed.count("\n") == 1
