"""A real vLLM on a CUDA GPU with the cache geometry of one K3 rank: short forms of benchmarks/gpu/batch.py.

Needs a GPU and an environment with vLLM 0.26 (docs/gpu-engine.md); `$K3GPU_SITE` or `$K3REPRO_ENGINE_PYTHON`
names it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks" / "gpu"
pytestmark = [pytest.mark.gpu, pytest.mark.slow]


def test_an_engine_prints_admits_and_decodes_as_predicted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("K3GPU_SCRATCH", str(tmp_path))
    monkeypatch.setenv("OUT", str(tmp_path / "out"))
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    for name in ("batch", "conclude", "engines", "launches", "predict"):
        sys.modules.pop(name, None)
    import batch
    from predict import predict

    from k3repro.probes.launch_check import check_launches

    predictions = predict(batch.STORE)
    with batch.up(["admit-13e9"], 8100) as serves:
        (serve,) = batch.warm(serves)
        batch.start(serve)
        grid = batch.probe(serve, "capacity-grid", cells=("1280@41", "200K@5"), osl=48, poll_s=0.1)
    batch.decode([("decode-one", (1_000, 64_000), ("64K+3x1K",), 0.0)], 8110)
    starts = batch.STORE.artifacts(name="engine-start")
    checked = batch.STORE.derive(check_launches, [predictions, *starts, grid], batch.SUBJECT)
    assert all(row["same"] for row in checked.rows("startups"))
    assert all(row["block_law_holds"] for row in checked.rows("admissions"))
    (run,) = batch.STORE.artifacts(name="decode-context")
    assert run.tier == "measured" and all(row["gaps"] for row in run.rows("steps"))
