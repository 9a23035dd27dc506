"""`capacity calibrate`: constants that made the waves are found again, and waves it never saw get nearer."""

from __future__ import annotations

from pathlib import Path

import pytest

from k3repro.errors import InputError
from k3repro.sizing.calibrate import Seen, fit, observations
from k3repro.store import Artifact, Store
from k3repro.twin import platform
from k3repro.twin.waves import simulate_wave
from k3repro.units import quantile

SHAPES = (
    (1, 1024, 16),
    (1, 1024, 64),
    (4, 1024, 16),
    (8, 1024, 32),
    (4, 2048, 16),
    (8, 512, 16),
    (2, 1024, 32),
)


def test_a_slower_engine_is_found_from_its_own_waves() -> None:
    """A platform whose step takes 30 % longer, and C0 twice as long, stands for the user's cluster."""
    base = platform("mi300x").with_overrides({"jitter_ppm": "0"})
    true = base.with_overrides({"step_ns": str(base.step_ns * 13 // 10), "c0_ns": str(2 * base.c0_ns)})
    seen = []
    for concurrency, isl, osl in SHAPES:
        wave = simulate_wave(true, concurrency, isl, osl)
        first = quantile([time / 1e9 for time in wave.first_ns], 0.5)
        seen.append(Seen(f"{concurrency}x{isl}/{osl}", concurrency, isl, osl, wave.wall_s, first))
    found = fit("mi300x", seen)
    assert found.before[1] > 0.2 and found.after[1] < 0.02
    assert set(found.fitted).isdisjoint(found.held_out) and len(found.held_out) == 3
    assert found.constants["step_ns"] == pytest.approx(true.step_ns, rel=0.03)


@pytest.fixture(scope="module")
def artifacts() -> dict[str, Artifact]:
    store = Store(Path(__file__).parents[2] / "artifacts")
    return {"twin-fidelity": store.find("twin-fidelity@twin")}


def test_too_few_waves_and_artifacts_without_any_are_refused(artifacts: dict[str, Artifact]) -> None:
    with pytest.raises(InputError, match="holds no waves"):
        observations([artifacts["twin-fidelity"]])
    with pytest.raises(InputError, match="0 usable waves"):
        observations([])
