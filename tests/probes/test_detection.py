"""The detection matrix: quick slices of it, its own arithmetic, and that every probe is on trial."""

from __future__ import annotations

import pytest

from k3repro.probes import PROBES, detection
from k3repro.probes.detection import TRIALS, Trial, detection_matrix, probes_on_trial
from k3repro.store import Store
from k3repro.twin import DEFECTS

# For each defect a probe that must see it at its default rate; a probe that flags nothing fails below.
SEES = {
    "kv-write-race": "needle-gate",
    "state-recycle": "needle-gate",
    "fabric-wedged": "osl-sweep",
    "missing-peers": "needle-gate",
    "coalesced-events": "latency",
    "in-stream-error": "latency",
    "prefill-api-dies": "envelope",
    "idle-stall": "envelope",
    "haystack-sensitivity": "needle-controls",
    "warm-prefix-cache": "osl-sweep",
    "tcp-fallback": "envelope",
    "slow-client": "latency",
    "clock-skew": "envelope",
    "decode-restarted": "osl-sweep",
    "preamble": "needle-controls",
}


def test_every_probe_and_every_defect_is_on_trial() -> None:
    assert set(PROBES) <= set(TRIALS), "give the new probe small parameters in detection.TRIALS"
    assert set(SEES) == set(DEFECTS)


@pytest.mark.parametrize("defect", sorted(SEES))
def test_each_defect_is_seen_at_full_rate(defect: str) -> None:
    assert any(Trial(SEES[defect], "mi325x", defect, 1.0, seed).flags() for seed in range(3))


@pytest.mark.parametrize("probe", probes_on_trial())
def test_a_probe_that_flags_nothing_fails(probe: str) -> None:
    """Each probe flags some defect, and not the clean twin."""
    assert Trial(probe, "mi325x", "", 0.0, 5).flags() == []
    noticed = [name for name in DEFECTS if Trial(probe, "mi325x", name, 1.0, 5).flags()]
    assert noticed, f"{probe} flags no defect"


@pytest.mark.slow
@pytest.mark.parametrize("platform", ["mi325x", "mi300x"])
@pytest.mark.parametrize("probe", probes_on_trial())
def test_the_clean_twin_raises_no_flag_over_two_hundred_seeds(probe: str, platform: str) -> None:
    flagged = {seed: Trial(probe, platform, "", 0.0, seed).flags() for seed in range(200)}
    assert not {seed: reasons for seed, reasons in flagged.items() if reasons}


def test_a_small_matrix_is_sealed_and_counts_right(tmp_path: object, store: Store) -> None:
    settings = {"first": 2, "full": 3, "clean": 1, "rates": (1.0, 0.01), "defects": ("preamble",)}
    sealed = detection_matrix(store, **settings)  # type: ignore[arg-type]
    assert sealed.tier == "simulated" and sealed.subject == "twin:mi325x"
    caught = {row["probe"]: row["smallest_rate"] for row in sealed.rows("caught")}
    assert caught["needle-controls"] in (1.0, 0.01) and caught["needle-gate"] is None
    cells = {(row["probe"], row["rate"]): row for row in sealed.rows("cells")}
    assert cells["needle-controls", 1.0]["detection"] == 1.0
    assert ("needle-gate", 0.01) not in cells, "below a rate that nothing flags nothing is run"
    assert any("flags no defect" in reason for reason in sealed.verdict["reasons"])
    again = detection_matrix(store, **settings)  # type: ignore[arg-type]
    assert again.seal == sealed.seal


def test_the_smallest_rate_is_the_end_of_an_unbroken_run() -> None:
    cells = [
        {"probe": "p", "rate": rate, "detection": share, "n": 20, "flagged": round(20 * share)}
        for rate, share in ((1.0, 1.0), (0.5, 0.95), (0.2, 0.9), (0.1, 1.0))
    ]
    assert detection._caught("d", "p", cells)["smallest_rate"] == 0.5
    assert detection._caught("d", "q", cells)["smallest_rate"] is None
