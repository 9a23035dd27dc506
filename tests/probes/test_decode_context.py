"""decode-context: contexts of mixed waves, which gaps count, the law and what a step pays for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from k3repro.capacity import law_of
from k3repro.errors import InputError, UsageError
from k3repro.probes import decode_context, run_probe
from k3repro.probes.decode_law import fit_decode_law
from k3repro.store import Artifact, Store

ONE = "twin:mi325x?step_longest_ps=2000000"
CHOSEN = "twin:mi325x?kv_splits=chosen&step_longest_ps=2000000"
SMALL = {"context": (1000, 20_000, 60_000), "mixed": ("60K+3x1K", "2x20K"), "osl": 24}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("artifacts"))


@pytest.fixture(scope="module")
def runs(store: Store) -> list[Artifact]:
    return [
        run_probe("decode-context", target=target, store=store, unsafe=True, seed=seed, **SMALL)
        for target in (ONE, CHOSEN)
        for seed in range(3)
    ]


def test_a_mixed_wave_is_written_longest_first_or_not() -> None:
    assert decode_context.contexts_of("3x1K + 64K") == (64_000, 1_000, 1_000, 1_000)
    with pytest.raises(UsageError, match="64K\\+3x1K"):
        decode_context.contexts_of("threex1K")


@pytest.mark.parametrize("wrong", [{"osl": 9}, {"context": ()}, {"context": (40,)}, {"mixed": ("2x40",)}])
def test_what_leaves_no_gap_to_count_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        decode_context.plan(decode_context.Parameters(**{**SMALL, **wrong}))


def test_gaps_count_while_all_decode_and_after_the_first_few() -> None:
    long, short = [0, 10, 20, 30, 40, 50], [22, 31, 41, 51, 61]
    rows = [{"request_id": "a", "prompt_tokens": 100}, {"request_id": "b", "prompt_tokens": 7}]
    row = decode_context.step_row("wave", rows, {"a": long, "b": short}, settle=1)
    # From 31 (b settled) to 50 (a ends): of a 40-50, of b 31-41.
    assert row.gaps == 2 and row.gap_mean_s == pytest.approx(10e-9) and row.gap_p50_s is None
    assert (row.longest, row.total) == (105.0, 105.0 + 9.0)


def test_a_sequence_that_never_spoke_leaves_no_gaps() -> None:
    rows = [{"request_id": "a", "prompt_tokens": 5}, {"request_id": "b", "prompt_tokens": 5}]
    assert decode_context.step_row("wave", rows, {"a": [0, 1, 2], "b": []}, settle=0).gaps == 0


def test_every_wave_decodes_together(runs: list[Artifact]) -> None:
    for run in runs:
        assert all(row["gaps"] >= 10 for row in run.rows("steps"))
        assert [r for r in run.verdict["reasons"] if not r.startswith("unsafe")] == []


def test_one_split_pays_for_the_longest_and_its_slope_is_what_the_twin_was_told(
    store: Store, runs: list[Artifact]
) -> None:
    laws = {row["configuration"]: row for row in store.derive(fit_decode_law, runs, "both").rows("law")}
    one, chosen = laws[ONE], laws[CHOSEN]
    assert one["serves"] == 3 and one["pays_for"] == "longest"
    assert one["slope_low_s_per_token"] <= one["slope_s_per_token"] <= one["slope_high_s_per_token"]
    assert one["slope_s_per_token"] - chosen["slope_s_per_token"] == pytest.approx(2e-6, rel=0.02)
    law = law_of(json.loads(one["law"]))
    assert law(resident=20_000.0) == pytest.approx(one["floor_s"] + 20_000 * one["slope_s_per_token"])


def test_two_serves_give_no_interval(store: Store, runs: list[Artifact]) -> None:
    (row,) = store.derive(fit_decode_law, runs[:2], "two").rows("law")
    assert row["slope_low_s_per_token"] is None and row["serves"] == 2


def test_another_kind_of_run_is_refused(store: Store, tmp_path: Path) -> None:
    gate = run_probe("needle-gate", target="twin:mi325x", store=store, context=1000)
    with pytest.raises(InputError, match="decode-context"):
        store.derive(fit_decode_law, [gate])
