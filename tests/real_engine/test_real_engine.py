"""Real vLLM on CPU: every model starts, proves itself, and the artifacts it leaves are measured.

Needs `$K3REPRO_ENGINE_PYTHON` (`make test-engine` sets it). One engine at a time; what is started is stopped.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import campaign
import engines

from k3repro.probes._judgement import PRINTED_NATS
from k3repro.store import Artifact, Store

pytestmark = [
    pytest.mark.engine,
    pytest.mark.slow,
    pytest.mark.skipif(
        engines.engine_python() is None,
        reason=f"NOT RUN engine: ${engines.VARIABLE} is not set; make test-engine",
    ),
]
# The hybrid's recurrent state is float32 where the processor has bfloat16 dot products, else bfloat16.
KV_LINES = {"qwen3": {2_097_152}, "deepseek-v3": {310_688}, "qwen3-next": {1_766_022, 1_917_396}}


def by_name(artifacts: list[Artifact]) -> dict[str, Artifact]:
    return {artifact.name: artifact for artifact in artifacts}


@pytest.mark.parametrize("name", ["qwen3", "deepseek-v3", "qwen3-next"])
def test_a_tiny_model_starts_as_the_law_says_and_repeats_itself(name: str, tmp_path: Path) -> None:
    found = by_name(campaign.aggregated(name, Store(tmp_path), campaign.scratch_folder()))
    assert {artifact.tier for artifact in found.values()} == {"measured", "derived"}
    assert all(row["same"] for row in found["startup-law"].rows("law"))
    assert found["engine-start"].rows("pools")[0]["tokens"] in KV_LINES[name]
    checks = found["self-consistency"].verdict["checks"]
    for wave in ("repeat", "reuse"):
        assert checks[wave]["different"] == 0 and checks[wave]["max_dlp"] == 0.0
    if name == "qwen3":
        assert found["self-consistency"].verdict["ok"], found["self-consistency"].verdict["reasons"]
    for probe in ("osl-sweep", "envelope", "latency", *campaign.EVERY):
        assert found[probe].verdict["tainted"] and all(row["completed"] for row in found[probe].rows("rungs"))


def test_a_small_real_model_recalls_needles_and_mixes_none(tmp_path: Path) -> None:
    found = by_name(campaign.aggregated("smollm2-135m", Store(tmp_path), campaign.scratch_folder()))
    gate = found["needle-gate"]
    # Every run asks for other needles; a model of this size may miss one. Another one's it must never say.
    hits = gate.verdict["outcomes"].get("hit", 0)
    assert not gate.rows("leaks") and hits >= gate.verdict["total"] - 1, gate.verdict["reasons"]
    for probe in ("osl-sweep", "envelope", "latency", *campaign.EVERY):
        assert found[probe].verdict.get("tainted", False) is not gate.verdict["ok"]
        assert found[probe].inputs == ((gate.seal,) if gate.verdict["ok"] else ())
        assert all(row["completed"] == row["requests"] for row in found[probe].rows("rungs"))
    assert found["niah-ladder"].verdict["recalled_to"]


def test_state_crosses_a_real_pair_behind_the_real_router(tmp_path: Path) -> None:
    found = by_name(campaign.disaggregated(Store(tmp_path), campaign.scratch_folder()))
    probe = found["self-consistency"]
    checks = probe.verdict["checks"]
    assert checks["swap"]["different"] == 0 and checks["swap"]["max_dlp"] <= PRINTED_NATS
    assert checks["swap-own"]["different"] == checks["swap-own"]["answers"]
    transfers = probe.rows("transfers")
    assert all(row["bytes"] == row["expected_bytes"] and not row["failed"] for row in transfers)
    assert probe.verdict["ok"], probe.verdict["reasons"]
    for name in campaign.PAIR:
        assert found[name].verdict["tainted"] and all(row["completed"] for row in found[name].rows("rungs"))
