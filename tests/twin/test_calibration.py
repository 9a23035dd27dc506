"""Calibration and fidelity: recomputable, equal to what the platforms hold, honest about what is held out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from k3repro.errors import InputError
from k3repro.publications import read_publication, transcribe
from k3repro.store import Artifact, Store
from k3repro.studies.kimi_k3.calibration import calibrate
from k3repro.studies.kimi_k3.fidelity import fidelity
from k3repro.studies.kimi_k3.relations import relations
from k3repro.twin import calibrated, platform, platform_sources
from k3repro.twin.waves import Session, lognormal, replay, simulate_wave

PUBLICATIONS = Path(__file__).parents[2] / "artifacts" / "publications" / "kimi_k3"
PRINTED = [PUBLICATIONS / f"amd-di-kimi-k3{part}.toml" for part in ("", "-memory")]


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Artifact]]:
    store = Store(tmp_path_factory.mktemp("store"))
    found = {
        artifact.name: artifact for file in PRINTED for artifact in transcribe(read_publication(file), store)
    }
    found["twin-calibration"] = store.derive(calibrate, [found["published-decode"]], subject="twin")
    found["relation"] = store.derive(
        relations, [found[name] for name in NEEDED[2:]], subject="amd-di-kimi-k3"
    )
    inputs = [found[name] for name in NEEDED]
    found["twin-fidelity"] = store.derive(fidelity, inputs, subject="twin")
    assert store.recompute() == []
    yield found


NEEDED = (
    "relation", "twin-calibration", "published-decode", "published-capacity", "published-agentic",
    "published-memory",
)  # fmt: skip


def test_the_platforms_hold_what_the_derivation_gives(sealed: dict[str, Artifact]) -> None:
    rows = sealed["twin-calibration"].rows("constants")
    for row in rows:
        name, constant = row["platform"], row["constant"]
        assert getattr(platform(name), constant) == row["value"], (name, constant)
        assert "twin-calibration" in platform_sources(name)[constant]
    named = {
        (name, key)
        for name in ("mi300x", "mi325x")
        for key, source in platform_sources(name).items()
        if "twin-calibration" in source
    }
    assert named == {(row["platform"], row["constant"]) for row in rows}


def test_held_out_cells_of_table_four_are_within_ten_percent(sealed: dict[str, Artifact]) -> None:
    rows = [row for row in sealed["twin-fidelity"].rows("summary") if row["source"] == "Table 4"]
    whole = next(row for row in rows if row["regime"] == "all of the table")
    assert whole["n_cells"] == 5 and whole["median_error"] <= 0.10


def test_no_error_stands_beside_a_cell_that_was_fitted(sealed: dict[str, Artifact]) -> None:
    cells = sealed["twin-fidelity"].rows("cells")
    assert {row["relation"] for row in cells} == {"in-sample", "same-law", "held-out"}
    assert all(row["error"] is None for row in cells if row["relation"] != "held-out")
    assert all(
        (row["error"] is None) == (row["simulated"] is None) for row in cells if row["relation"] == "held-out"
    )
    assert all(row["why"] for row in cells if row["simulated"] is None)
    fitted = {row["cell"] for row in cells if row["relation"] == "in-sample" and row["platform"] == "mi300x"}
    assert fitted == {"con 32, MAX_NUM_SEQS 8"}


def test_a_point_of_the_printed_law_is_no_test_and_a_repeat_counts_once(sealed: dict[str, Artifact]) -> None:
    """At one request the twin is the printed law; ratios of one run, and Table 4 again, are one datum."""
    cells = {
        (row["platform"], row["source"], row["cell"], row["quantity"]): row
        for row in sealed["twin-fidelity"].rows("cells")
    }
    where = "The Concurrency Envelope"
    for name in ("mi300x", "mi325x"):
        assert cells[name, where, "con 1", "wall"]["relation"] == "same-law"
        assert cells[name, "Table 7", "small, con 1", "itl_p50_ms"]["relation"] == "same-law"
    counted = {key for key, row in cells.items() if row["counts"] and key[1] == where}
    assert counted == {("mi325x", where, "con 512", "throughput")}
    again = cells["mi300x", where, "con 64", "throughput"]
    assert (again["relation"], again["counts"]) == ("held-out", False) and "slots" in again["follows"]
    summary = sealed["twin-fidelity"].rows("summary")
    counts = {(row["source"], row["platform"]): row["n_cells"] for row in summary if row["regime"] == WHOLE}
    assert (where, "mi300x") not in counts and counts[where, "mi325x"] == 1
    assert counts["Table 4", "mi300x"] == 5
    assert counts["Table 5", "mi300x"] == counts["Table 5", "mi325x"] == 3


WHOLE = "all of the table"


def test_what_the_twin_misses_is_explained_and_not_fitted(sealed: dict[str, Artifact]) -> None:
    cells, needed = (sealed["twin-fidelity"].rows(name) for name in ("cells", "needed"))
    assert {(row["platform"], row["constant"]) for row in needed} == {
        (name, constant)
        for name in ("mi300x", "mi325x")
        for constant in ("step_longest_ps", "prefill_pair_fs")
    }
    for row in needed:
        assert getattr(platform(row["platform"]), row["constant"]) == 0, "the twin itself keeps neither"
        assert row["times"] == row["value"] / row["least"] > 1
        assert row["low"] < row["value"] < row["high"]
    far = [row for row in cells if row["error"] is not None and abs(row["error"]) > 0.1]
    assert far and all(row["why"] for row in far)
    solved = {row["solved_on"] for row in needed}
    names = {f"{row['source']}, {row['cell']}, {row['quantity']}" for row in cells}
    assert solved <= names
    for row in cells:
        if f"{row['source']}, {row['cell']}, {row['quantity']}" in solved:
            assert row["what_if_error"] is None and row["what_if"] == pytest.approx(row["printed"], rel=5e-3)
    # One constant a platform, solved alone and on two thousand tokens, carries to a quarter million.
    gaps = [row for row in cells if row["quantity"] == "itl_p50_ms" and "long" in row["regime"]]
    assert len(gaps) == 6 and all(row["error"] < -0.8 for row in gaps)
    assert all(abs(row["what_if_error"]) < 0.5 for row in gaps)
    # And what is right at short context stays so.
    short = [row for row in cells if row["source"] == "Table 4" and row["what_if_error"] is not None]
    assert len(short) == 5 and all(abs(row["what_if_error"]) <= 0.1 for row in short)


def test_a_class_tells_its_own_output_length(sealed: dict[str, Artifact]) -> None:
    rows = [row for row in sealed["twin-fidelity"].rows("cells") if row["source"] == "Table 5"]
    peak = {
        row["quantity"]: row
        for row in rows
        if (row["cell"], row["platform"]) == ("throughput-peak", "mi325x")
    }
    assert peak["in_tokens_per_s"]["printed"] == 981 - 368
    assert peak["in_tokens_per_s"]["implied_output"] == pytest.approx(1024 * 368 / (981 - 368))
    assert abs(peak["in_tokens_per_s"]["error"]) < 0.05 < abs(peak["out_tokens_per_s"]["error"])


def test_contradictions_are_of_the_publication_alone(sealed: dict[str, Artifact]) -> None:
    rows = sealed["twin-fidelity"].rows("contradictions")
    assert {(row["source"], row["cell"]) for row in rows} >= {
        ("Table 3", "con 16"),
        ("Table 5", "long-context"),
    }
    implied = next(row for row in rows if row["cell"] == "con 16")["implied"]
    assert implied == pytest.approx(16 * 256 / (3.2 + 255 * 0.0773))


def test_table_two_depends_on_the_timeout(sealed: dict[str, Artifact]) -> None:
    rows = sealed["twin-fidelity"].rows("grid")
    waves: dict[tuple[str, int, int], list[int]] = {}
    for row in sorted(rows, key=lambda row: row["timeout_s"]):
        key = (row["platform"], row["context_tokens"], row["concurrency"])
        waves.setdefault(key, []).append(row["completed"])
        assert row["resident"] <= row["admitted"] <= row["concurrency"]
    assert all(done == sorted(done) for done in waves.values())
    assert any(done[0] < done[-1] for done in waves.values())


def test_inputs_are_named_when_missing(sealed: dict[str, Artifact]) -> None:
    with pytest.raises(InputError, match="published-decode"):
        calibrate([sealed["published-agentic"]])
    with pytest.raises(InputError, match="twin-calibration"):
        fidelity([sealed["published-decode"]])


def test_another_printed_rate_moves_the_constants(sealed: dict[str, Artifact]) -> None:
    """The mutant of our own check: the derivation reads the cells, it does not know the answer."""
    from k3repro.studies.kimi_k3 import calibration

    wall = {row["platform"]: row for row in sealed["published-decode"].rows("wall_law")}
    large = calibrated(sealed["twin-calibration"], "mi325x")
    slow, fast = (calibration._small(wall, large, rate) for rate in (230.0, 270.0))
    assert slow.step_sequence_ns > platform("mi300x").step_sequence_ns > fast.step_sequence_ns


def test_lognormal_draws_keep_their_quantiles() -> None:
    draws = sorted(lognormal(1849, 7000, 1, 4000))
    assert draws[2000] == pytest.approx(1849, rel=0.1)
    assert draws[-20] == 7000
    assert lognormal(1849, 7000, 1, 50) == lognormal(1849, 7000, 1, 50)


def test_sessions_think_between_turns() -> None:
    spec = platform("mi325x").with_overrides({"jitter_ppm": "0"})
    turns = ((1000, 0, 5), (2000, 1000, 5))
    idle, thinking = (replay(spec, [Session(turns, think)], 1, 10**12) for think in (0, 30_000_000_000))
    assert [flight.arrival_ns - idle[0].finished_ns for flight in idle[1:]] == [0]
    assert [flight.arrival_ns - thinking[0].finished_ns for flight in thinking[1:]] == [30_000_000_000]
    assert idle[1].cached_tokens == 1000


def test_a_wave_counts_what_ends_in_time() -> None:
    wave = simulate_wave(platform("mi300x").with_overrides({"jitter_ppm": "0"}), 64, 1024, 512)
    assert wave.completed(1) == 0 and wave.completed(10**4) == 64
    assert wave.resident == 64 and wave.preemptions == 0
