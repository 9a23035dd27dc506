"""The detection matrix: quick slices of it, its own arithmetic, and that every probe is on trial."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import pytest

from k3repro.probes import PROBES, detection
from k3repro.probes.detection import detection_matrix, shown
from k3repro.probes.detection_trial import Trial, flags, probes_on_trial, trials
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
    # A hand-off has two engines by URL, which no simulated target is.
    assert set(PROBES) - {"hand-off"} <= set(trials()), (
        "give the new probe small parameters: TRIAL of its module"
    )
    assert set(SEES) == set(DEFECTS)


@pytest.mark.parametrize("defect", sorted(SEES))
def test_each_defect_is_seen_at_full_rate(defect: str) -> None:
    assert any(Trial(SEES[defect], "mi325x", defect, 1.0, seed).flags() for seed in range(3))


@pytest.mark.parametrize("probe", probes_on_trial())
def test_a_probe_that_flags_nothing_fails(probe: str) -> None:
    """Each probe flags some defect, and not the clean twin."""
    assert Trial(probe, "mi325x", "", 0.0, 5).flags() == []
    noticed = any(Trial(probe, "mi325x", name, 1.0, 5).flags() for name in DEFECTS)
    assert noticed, f"{probe} flags no defect"


@pytest.mark.parametrize("probe", ["needle-gate", "latency", "osl-sweep"])
def test_a_killed_wave_alone_raises_no_flag(probe: str) -> None:
    """The control of the wedged fabric: its trials begin with a killed wave, which is not what they flag."""
    assert Trial(probe, "mi325x", "", 0.0, 5, killed=True).flags() == []
    assert "canary-before-4" in Trial(probe, "mi325x", "fabric-wedged", 1.0, 5).flags()[0]


# Drawn once from the two hundred seeds below; on mi325x seed 5 is tried above.
@pytest.mark.parametrize(("platform", "seed"), [("mi325x", 19), ("mi300x", 104)])
@pytest.mark.parametrize("probe", probes_on_trial())
def test_the_clean_twin_raises_no_flag(probe: str, platform: str, seed: int) -> None:
    assert Trial(probe, platform, "", 0.0, seed).flags() == []


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("platform", ["mi325x", "mi300x"])
def test_the_clean_twin_raises_no_flag_over_two_hundred_seeds(platform: str) -> None:
    trials = [Trial(probe, platform, "", 0.0, seed) for probe in probes_on_trial() for seed in range(200)]
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as executor:
        found = zip(trials, executor.map(flags, trials, chunksize=20), strict=True)
        flagged = {(trial.probe, trial.seed): reasons for trial, reasons in found if reasons}
    assert len(trials) == 200 * len(probes_on_trial()) and not flagged


def test_a_small_matrix_is_sealed_and_counts_right(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    # Three trials show no more than a third at 95 % confidence.
    monkeypatch.setattr(detection, "ENOUGH", 0.33)
    monkeypatch.setattr(detection, "probes_on_trial", lambda: ["needle-controls", "needle-gate"])
    settings: dict[str, Any] = {
        "first": 2, "rounds": (3,), "clean": 1, "rates": (1.0, 0.01), "defects": ("preamble",),
    }  # fmt: skip
    sealed = detection_matrix(store, **settings)
    assert sealed.tier == "simulated" and sealed.subject == "twin:mi325x"
    caught = {row["probe"]: row for row in sealed.rows("caught")}
    assert caught["needle-controls"]["smallest_rate"] == 1.0 and caught["needle-controls"]["n"] == 3
    assert caught["needle-controls"]["at_least"] == pytest.approx(0.05 ** (1 / 3))
    assert caught["needle-gate"]["smallest_rate"] is None and caught["needle-gate"]["at_least"] is None
    cells = {(row["probe"], row["rate"]): row for row in sealed.rows("cells")}
    found = cells["needle-controls", 1.0]
    assert (
        found["detection"] == 1.0 and found["low"] == pytest.approx(0.025 ** (1 / 3)) and found["high"] == 1
    )
    assert ("needle-gate", 0.01) not in cells, "below a rate that nothing flags nothing is run"
    assert any("flags no defect" in reason for reason in sealed.verdict["reasons"])
    clean = sealed.rows("clean")
    assert all(row["flagged"] == 0 and row["at_most"] == pytest.approx(0.95) for row in clean)
    again = detection_matrix(store, **settings)
    assert again.seal == sealed.seal


def _cells(*counts: tuple[float, int, int]) -> list[detection.Detection]:
    return [
        detection._cell("d", "p", rate, [["x"]] * flagged + [[]] * (n - flagged))
        for rate, n, flagged in counts
    ]


def test_what_is_caught_is_shown_and_unbroken() -> None:
    cells = _cells((1.0, 8, 8), (0.5, 59, 59), (0.2, 20, 18), (0.1, 59, 59))
    row = detection._caught("d", "p", cells)
    assert (row.smallest_rate, row.n, row.flagged) == (0.5, 59, 59)
    assert 0.95 < (row.at_least or 0) < 0.951
    assert (row.missed_rate, row.missed_n, row.missed_flagged) == (0.2, 20, 18)
    assert detection._caught("d", "q", cells).smallest_rate is None
    # Twenty of twenty look like all of them and show no more than 86 %.
    assert detection._caught("d", "p", _cells((1.0, 20, 20))).smallest_rate is None


def test_how_many_trials_show_ninety_five_percent() -> None:
    assert shown(59, 59) and not shown(58, 58)
    assert shown(92, 93) and not shown(91, 92)
    assert not shown(20, 20) and not shown(91, 93)


def test_a_rate_is_tried_until_it_is_shown_or_missed_twice() -> None:
    """Probes that flag by a made-up rule: always, 19 of 20 times, half of the time."""
    calls: dict[tuple[str, float], int] = {}
    results: dict[tuple[str, float], list[list[str]]] = {
        ("latency", 1.0): [["x"]] * 8, ("latency", 0.1): [["x"]] * 8, ("slots", 1.0): [["x"]] * 8,
        ("slots", 0.1): [["x"]] * 7 + [[]],
    }  # fmt: skip

    def extend(wanted: Mapping[tuple[str, float], int]) -> None:
        for key, count in wanted.items():
            calls[key] = count
            have = results[key]
            while len(have) < count:
                have.append([] if key == ("slots", 0.1) and len(have) == 30 else ["x"])

    detection._settle(results, (20, 59, 93), extend)
    assert calls["latency", 0.1] == 59 and ("latency", 1.0) not in calls, "the lowest rate is shown"
    assert calls["slots", 0.1] == 59 and calls["slots", 1.0] == 59, "missed twice, so the next higher one"


def test_a_rate_that_runs_out_of_trials_hands_over_to_the_next() -> None:
    results: dict[tuple[str, float], list[list[str]]] = {
        ("latency", 1.0): [["x"]] * 8, ("latency", 0.1): [["x"]] * 58 + [[]],
    }  # fmt: skip

    def extend(wanted: Mapping[tuple[str, float], int]) -> None:
        for key, count in wanted.items():
            results[key] += [["x"]] * (count - len(results[key]))

    detection._settle(results, (20, 59), extend)
    assert len(results["latency", 1.0]) == 59 and len(results["latency", 0.1]) == 59
