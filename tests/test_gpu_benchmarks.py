"""benchmarks/gpu: every launch has the cache of one K3 rank; the sealed predictions cover it and hold."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from k3repro.capacity import Engine, block_law, parse_version
from k3repro.capacity.launches import law_of_launch
from k3repro.spec import load_model, model_from
from k3repro.store import Store

FOLDER = Path(__file__).parents[1] / "benchmarks" / "gpu"


@pytest.fixture(scope="module")
def launches() -> ModuleType:
    spec = importlib.util.spec_from_file_location("gpu_launches", FOLDER / "launches.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_served_geometry_is_one_rank_of_the_model(launches: ModuleType) -> None:
    found, _ = launches.load()
    for launch in found.values():
        engine = Engine(
            version=parse_version(launch.version), kv_dtype=launch.kv_dtype, backend=launch.backend,
            prefix_caching=launch.prefix_caching, block_size=launch.block_size,
        )  # fmt: skip
        served = block_law(model_from(launches.model_config(launch)), engine)
        rank = law_of_launch(load_model("kimi-k3"), launch.as_dict())
        for length in (1, 5_760, 100_000):
            assert served.blocks_per_request(length) == rank.blocks_per_request(length), launch.name
        assert served.pool_block_bytes == rank.pool_block_bytes, launch.name


def test_sealed_predictions_cover_every_launch_and_still_hold(launches: ModuleType) -> None:
    found, plan = launches.load()
    sealed = Store(FOLDER.parents[1] / "artifacts").artifacts(name="launch-predictions")[0]
    rows = {row["launch"]: row for row in sealed.rows("startups")}
    assert set(rows) == set(found)
    for name, launch in found.items():
        law = law_of_launch(load_model("kimi-k3"), launch.as_dict())
        blocks = law.pool_blocks(launch.pool_bytes)
        assert rows[name]["printed_tokens"] == law.printed_tokens(blocks, launch.max_model_len)
    assert {row["context"] for row in sealed.rows("admissions")} == set(plan["contexts"])


def test_flags_say_what_the_launch_says(launches: ModuleType) -> None:
    found, _ = launches.load()
    assert (
        "--enforce-eager" in found["start-tp4"].flags()
        and "--compilation-config" in found["decode-one"].flags()
    )
    assert any("DecodeBenchConnector" in flag for flag in found["decode-one"].flags())
    assert any("NixlConnector" in flag for flag in found["hand-tp2"].flags("kv_producer"))
    assert "--enable-prefix-caching" in found["start-caching"].flags()
