"""Reading published tables: each finding by hand, no finding in true tables, mutants found."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reading_tables import MUTATIONS, cells, draw, table

from k3repro.capacity import serving_of
from k3repro.claims import Library, Span
from k3repro.errors import ArtifactMissing, InputError
from k3repro.publications import read_publication, transcribe
from k3repro.spec import load_layout, load_model, load_platform
from k3repro.store import Artifact, Store
from k3repro.studies.node import read_tables, seal_costs, seal_reading, seal_roofline
from k3repro.studies.node._contradictions import KINDS, contradictions, shared_ceilings
from k3repro.studies.node._demand import demands
from k3repro.studies.node._in_flight import infer
from k3repro.studies.node._ladder import Ladder, Level, printed_span

PUBLICATIONS = Path(__file__).resolve().parents[2] / "artifacts" / "publications" / "node"
HBM = ({"resource": "hbm", "mode": "x", "saturation": 500},)


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Store:
    found = Store(tmp_path_factory.mktemp("reading"))
    for name in ("mi325x-cookbook", "mi325x-crossarch"):
        transcribe(read_publication(PUBLICATIONS / f"{name}.toml"), found)
    return found


@pytest.fixture(scope="module")
def reading(store: Store) -> Artifact:
    return seal_reading(store, "mi325x-cookbook", "mi325x-crossarch")


# Cells


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("15,944", 15943.5, 15944.5), ("6.15", 6.145, 6.155), ("4.42-4.44", 4.415, 4.445), ("~500", 450, 550),
        ("18.9M", 18.85e6, 18.95e6), ("+4.08 %", None, None), ("4.08 %", 4.075, 4.085), ("12", 11.5, 12.5),
        ("not printed", None, None), ("", None, None), ("33,376-34,050", 33375.5, 34050.5),
        ("9-1", None, None),
    ],
)  # fmt: skip
def test_what_a_cell_stands_for(text: str, low: float | None, high: float | None) -> None:
    span = printed_span(text)
    assert (span is None) == (low is None)
    if span is not None:
        assert (float(span.low), float(span.high)) == pytest.approx((low, high))


# By hand: every finding of the published tables, in plain arithmetic on printed numbers.

PEAK = 8 * 2614.9e12
LLAMA = 126 * (16384 * 144 * 128 + 16384 * 16384 + 3 * 16384 * 53248)
WEIGHTS = LLAMA + 2 * 128_256 * 16_384
QWEN_KV, LLAMA_KV = 385_024, 258_048
STEP = {"llama": WEIGHTS, "qwen": 468.9e9}


def _memory(model: str, output: float, flying: float, context: float) -> float:
    keys = flying * context * (LLAMA_KV if model == "llama" else QWEN_KV)
    return output / flying * (STEP[model] + keys) / 48e12


MODELS = ("qwen3-vl-235b", "llama-3.1-405b", "deepseek-v3.2", "kimi-k2.5")
SENT_100 = {f"not-offered/{model}/multi-run/{c}" for model in MODELS for c in (200, 500, 750, 1000)}
HAND = {
    # 423 tokens a request on 150, 200 and 300; rate x p99 is 188 thousand on the rest: 445 requests
    "not-offered/llama-3.1-405b/stress/saturation/500": lambda: 15_944 * 11.78 / (10_320 * 6.15 / 150) < 450,
    "not-offered/llama-3.1-405b/stress/saturation/750": lambda: 15_693 * 12.01 / (10_320 * 6.15 / 150) < 450,
    "not-offered/llama-3.1-405b/stress/saturation/1000": lambda: 15_319 * 12.28 / (10_320 * 6.15 / 150) < 450,
    "not-offered/qwen3-vl-235b/stress/saturation/500": lambda: 47_873 * 12.37 / (37_850 * 10.5 / 300) < 450,
    "not-offered/qwen3-vl-235b/stress/saturation/750": lambda: 47_092 * 12.53 / (37_850 * 10.5 / 300) < 450,
    "not-offered/qwen3-vl-235b/stress/saturation/1000": lambda: 47_252 * 12.5 / (37_850 * 10.5 / 300) < 450,
    # the ladder to 200 users: the last level has fewer than 180 in flight
    "not-offered/qwen3-vl-235b/stress/scaling/200": lambda: 26_674 * 8.92 / (1_956 * 3.46 / 5) < 180,
    # quick mode: 528 tokens a request up to 50 users, and then 50 requests whatever is asked
    "not-offered/llama-3.1-405b/validation/scaling/75": lambda: 3_413 * 7.72 / (850 * 6.22 / 10) < 50.5,
    "not-offered/llama-3.1-405b/validation/scaling/100": lambda: 3_415 * 7.73 / (850 * 6.22 / 10) < 50.5,
    # the same rate and the same p99 at 150 and at 500 users
    **{f"not-offered/llama-3.1-405b/validation/saturation/{c}": lambda r=r: r / 7_222 < 1.01
       for c, r in ((200, 7_169), (300, 7_173), (500, 7_180))},
    # a hundred requests are not two hundred in flight
    **dict.fromkeys(SENT_100, lambda: 100 < 200),
    # rate x p99 / concurrency against prompt plus reply
    "length/llama-3.1-405b/stress/scaling/5": lambda: 423 * 6.15 / 5 < 530 < 700 * 0.9,
    "length/llama-3.1-405b/stress/saturation/300": lambda: 13_937 * 9.09 / 300 < 430 < 700 * 0.9,
    "length/llama-3.1-405b/validation/scaling/50": lambda: 3_417 * 7.71 / 50 < 530 < 700 * 0.9,
    "length/llama-3.1-405b/validation/saturation/150": lambda: 7_222 * 4.445 / 150 < 220 < 700 * 0.9,
    "length/llama-3.1-405b/stress/context-4k/25": lambda: 8_240 * 7.52 / 25 < 2_500 < 4_000 * 0.9,
    "length/llama-3.1-405b/stress/context-8k/12": lambda: 6_794 * 7.22 / 12 < 4_100 < 8_000 * 0.9,
    "length/qwen3-vl-235b/multi-run/200": lambda: 11_193 * 15.46 / 100 < 1_740 < 2_560 * 0.9,
    "length/llama-3.1-405b/multi-run/1000": lambda: 6_798 * 25.84 / 100 < 1_760 < 2_560 * 0.9,
    "length/deepseek-v3.2/multi-run/200": lambda: 5_486 * 24.14 / 100 < 1_330 < 2_560 * 0.9,
    "length/kimi-k2.5/multi-run/500": lambda: 948 * 183.23 / 100 < 1_740 < 2_560 * 0.9,
    "length/qwen3-vl-235b/fine-sweep/700": lambda: 60_131 * 4.27 / 700 < 370 < 700 * 0.9,
    "length/llama-3.1-405b/fine-sweep/500": lambda: 34_050 * 7.80 / 500 < 532 < 700 * 0.9,
    "length/deepseek-v3.2/fine-sweep/500": lambda: 37_413 * 6.49 / 500 < 490 < 700 * 0.9,
    "length/kimi-k2.5/fine-sweep/650": lambda: 7_340 * 35.97 / 650 < 410 < 700 * 0.9,
    # reply tokens: output rate x p99 / concurrency
    "output-length/llama-3.1-405b/stress/saturation/300": lambda: 3_249 * 9.09 / 300 < 99 < 200 * 0.9,
    "output-length/llama-3.1-405b/stress/long-output/50": lambda: 1_224 * 19.02 / 50 < 470 < 1_000 * 0.9,
    # two operations for each of 401.65 billion parameters and token, against eight GPUs of 2,614.9 TFLOP/s
    "above-dense-peak/llama-3.1-405b/fine-sweep/500": lambda: 34_049.5 * 2 * LLAMA / PEAK > 1.3,
    # bytes of decode steps: less at 445 in flight than at 150, while the rate grows by half
    "bound-trend/llama-3.1-405b/stress/saturation/500": lambda: (
        _memory("llama", 3_673, 445, 424) < 0.08 < 0.13 < _memory("llama", 2_406, 150, 373)),
    "bound-trend/qwen3-vl-235b/stress/saturation/500": lambda: (
        _memory("qwen", 7_140, 443, 1_336) < 0.24 < 0.26 < _memory("qwen", 3_513, 150, 1_224)),
    "bound-slack/llama-3.1-405b/stress/saturation/500": lambda: _memory("llama", 3_673, 443, 424) < 0.5,
    "bound-slack/qwen3-vl-235b/stress/saturation/500": lambda: _memory("qwen", 7_140, 443, 1_336) < 0.5,
    # 512 of at least 1,324 to 1,756 tokens are reply: the steps of a hundred in flight
    "bound-slack/llama-3.1-405b/multi-run/100": lambda: (
        _memory("llama", 6_802 * 512 / 1_756, 99.5, 1_766) < 0.19),
    "bound-slack/qwen3-vl-235b/multi-run/100": lambda: (
        _memory("qwen", 11_198 * 512 / 1_729, 98, 1_759) < 0.38),
    "bound-slack/kimi-k2.5/multi-run/100": lambda: (
        948 * 512 / 1_736 / 98.9 * (591.9e9 + 98.9 * 1_756 * 4 * 70_272) / 24e12 < 0.08),
    # at least 0.24 of the bandwidth against at most 0.07; 0.22 against 0.08
    "ceiling-not-shared/multi-run": lambda: (
        11_198 * 0.2 / 100 * (468.9e9 + 98 * 1_474 * QWEN_KV) / 48e12
        / (948 * 512 / 1_736 / 98.9 * 641e9 / 24e12) > 3),
    "ceiling-not-shared/stress": lambda: (
        _memory("qwen", 7_140, 447, 1_224) / _memory("llama", 3_673, 443, 424) > 2.5),
}  # fmt: skip


def test_each_finding_is_derived_by_hand(reading: Artifact) -> None:
    assert {row["finding"] for row in reading.rows("findings")} == set(HAND)
    wrong = [name for name, derivation in HAND.items() if not derivation()]
    assert not wrong


def test_every_kind_occurs_and_every_finding_shows_its_arithmetic(reading: Artifact) -> None:
    findings, steps = reading.rows("findings"), reading.rows("steps")
    assert {row["kind"] for row in findings} == set(KINDS)
    for row in findings:
        own = [step for step in steps if step["finding"] == row["finding"]]
        assert own and row["what"] and row["assuming"]
        if row["kind"] in ("not-offered", "length", "output-length", "bound-trend", "bound-slack"):
            last = own[-1]
            assert (last["value_low"], last["value_high"]) == (row["value_low"], row["value_high"])


def test_how_many_were_in_flight(reading: Artifact) -> None:
    """445 behind 500 to 1,000 users, 50 in quick mode; 528 tokens a request; 98 reply tokens of 200."""
    inferred = {row["series"]: row for row in reading.rows("inferred")}
    stress = inferred["llama-3.1-405b/stress/saturation"]
    assert 440 < stress["cap_low"] <= stress["cap_high"] < 450
    assert stress["agreeing"] == [150, 200, 300] and 98 < stress["output_length_high"] < 99
    assert inferred["qwen3-vl-235b/stress/saturation"]["cap_low"] > 440
    quick = inferred["llama-3.1-405b/validation/scaling"]
    assert (round(quick["cap_low"]), round(quick["cap_high"])) == (50, 50)
    assert inferred["llama-3.1-405b/fine-sweep"]["length_high"] is None


def test_which_levels_can_be_a_steady_state(reading: Artifact) -> None:
    steady = {(row["series"], row["concurrency"]): row["steady"] for row in reading.rows("levels")}
    llama = [steady["llama-3.1-405b/multi-run", c] for c in (10, 50, 100, 200)]
    assert llama == ["steady", "steady", "burst", "burst"]
    deepseek = [steady["deepseek-v3.2/multi-run", c] for c in (10, 50, 100)]
    assert deepseek == ["tail", "steady", "burst"]
    assert steady["llama-3.1-405b/stress/saturation", 150] == "unknown"  # requests per level are not printed


def test_one_wave_cannot_outlast_its_slowest_request(reading: Artifact) -> None:
    """DeepSeek at 10 users: 22.76 s at p99, and even requests as long as stated took 10 x 2,560 / 2,857 s."""
    row = next(row for row in reading.rows("levels") if (row["series"], row["concurrency"]) == (
        "deepseek-v3.2/multi-run", 10))  # fmt: skip
    assert row["tail_low"] == pytest.approx(22.755 / (10 * 2560 / 2856.5), rel=1e-6)


def test_levels_that_sent_the_same_requests_agree_on_nothing(reading: Artifact) -> None:
    """A hundred requests at 100 to 1,000 users: 1,337 tokens each, or 2,560 each with 52 in flight."""
    row = next(row for row in reading.rows("inferred") if row["series"] == "deepseek-v3.2/multi-run")
    assert row["length_high"] is None and row["agreeing"] == []
    assert 51 < 5_518 * 24.22 / 2_560 < 53
    finding = next(
        row for row in reading.rows("findings") if row["finding"] == "length/deepseek-v3.2/multi-run/200"
    )
    assert "or fewer requests were in flight" in finding["what"]
    rows = [row for row in reading.rows("levels") if row["series"] == "deepseek-v3.2/multi-run"]
    assert all(row["memory_low"] is None for row in rows)


def test_figures_that_follow_from_others(reading: Artifact) -> None:
    rows = {(row["what"], row["model"]): row for row in reading.rows("derived")}
    each = rows["tokens per request", "all"]
    assert each["value_low"] <= 18.9e6 / 17_406 <= each["value_high"] and each["printed"] == ""
    assert rows["memory of the node", "all"]["place"] == "data-methods#4"
    peak = rows["highest rate of any ladder / figure called the peak", "llama-3.1-405b"]
    assert peak["place"] == "key-points#16" and peak["value_low"] <= 34_050 / 15_944 <= peak["value_high"]
    spread = rows["coefficient of variation at the peak", "llama-3.1-405b"]
    assert spread["value_low"] <= 336 * math.sqrt(5) / 2.776445 / 6_808 * 100 <= spread["value_high"]
    places = {
        claim.place for claim in Library(PUBLICATIONS.parents[1]).ledger("mi325x-crossarch").claims.values()
    }
    assert {row["place"] for row in rows.values()} <= {*places, ""}, "a print that its ledger does not know"
    gain = rows["ablation at concurrency 5", ""]
    assert gain["value_low"] <= 549 / 554 * 100 - 100 <= gain["value_high"] and gain["place"] == ""


# True tables raise nothing


@given(st.integers(0, 2**32))
def test_a_true_table_raises_no_finding(seed: int) -> None:
    truth = draw(seed)
    inference = infer(table(truth, cells(truth, seed)))
    assert contradictions(inference, []) == []
    assert all(flight.short == "" for flight in inference.flights)
    if inference.length is not None:
        assert inference.length.high >= (truth.isl + truth.osl) * Fraction(9, 10)


@pytest.mark.parametrize("name", sorted(MUTATIONS))
def test_mutants_are_found(name: str) -> None:
    """A falsified ladder is found in most draws, and for the right reason; the benchmark prints the rates."""
    found = 0
    for seed in range(60):
        ladder, kind = MUTATIONS[name](seed)
        found += kind in {item.kind for item in contradictions(infer(ladder), [])}
    assert found >= 45, (name, found)


def test_known_requests_need_no_assumption() -> None:
    truth = draw(3)
    ladder = table(truth, cells(truth, 3), requests=100)
    shorts = {f.level.concurrency: f.short for f in infer(ladder).flights if f.short}
    assert shorts == {200: "requests", 400: "requests", 800: "requests"}
    found = [item for item in contradictions(infer(ladder), []) if item.kind == "not-offered"]
    assert {item.assuming for item in found} == {"nothing"} and all(item.survives for item in found)


# Hardware


def _llama(*levels: tuple[int, str, str, str]) -> Ladder:
    spans = tuple(Level(c, *(printed_span(cell) for cell in row)) for c, *row in levels)  # type: ignore[arg-type]
    return Ladder("m/x", "m", "l", "x", "x", 500, 200, None, "text", 8, spans)


SERVING = serving_of(
    load_model("llama-3.1-405b"), load_layout("llama-3.1-405b-1n-mi325x"), load_platform("mi325x")
)
WHOLE = [(c, f"{700 * c / r:.0f}", f"{200 * c / r:.0f}", f"{r:.2f}") for c, r in (
    (10, 10.0), (100, 14.0), (300, 20.0), (600, 36.0))]  # fmt: skip


def test_a_rate_below_the_peak_is_no_finding_and_above_it_is_one() -> None:
    peak = SERVING.flops / SERVING.flops_of(1.0)
    for factor, kinds in ((0.99, []), (1.01, ["above-dense-peak"])):
        rate = factor * peak
        ladder = _llama((100, f"{rate:.0f}", f"{rate / 3.5:.0f}", f"{100 * 700 / rate:.2f}"))
        inference = infer(ladder)
        found = [item.kind for item in contradictions(inference, demands(inference, SERVING))]
        assert found == kinds


def test_memory_that_is_used_up_is_a_bound() -> None:
    """A ladder whose steps take what the bandwidth takes contradicts nobody who says so."""
    rows = []
    for c in (50, 100, 200, 600):
        step = (SERVING.passes.step_bytes(c) + c * 600 * SERVING.kv_bytes) / SERVING.bytes_per_s / 0.8
        seconds = 200 * step
        rows.append((c, f"{700 * c / seconds:.1f}", f"{200 * c / seconds:.1f}", f"{seconds:.3f}"))
    inference = infer(_llama(*rows))
    needs = demands(inference, SERVING)
    assert [float(need.memory.high) for need in needs if need.memory] == pytest.approx([0.8] * 4, rel=0.05)
    assert [item for item in contradictions(inference, needs, HBM) if item.kind.startswith("bound")] == []


def test_compute_bound_ladders_contradict_a_bandwidth_claim() -> None:
    inference = infer(_llama(*WHOLE))
    found = {item.kind for item in contradictions(inference, demands(inference, SERVING), HBM)}
    assert {"bound-trend", "bound-slack"} <= found
    none = contradictions(inference, demands(inference, SERVING), ({**HBM[0], "mode": "y"},))
    assert not {item.kind for item in none} & {"bound-trend", "bound-slack"}


def test_one_model_shares_its_ceiling_with_itself() -> None:
    inference = infer(_llama(*WHOLE))
    needs = demands(inference, SERVING)
    assert shared_ceilings([(inference, needs), (inference, needs)], HBM) == []


def test_survival_needs_twice_the_slack() -> None:
    rates = ((10, "700", "200"), (20, "1400", "400"), (40, "2450", "700"))
    short = infer(_llama(*((*row, "10.00") for row in rates)))
    (weak,) = [item for item in contradictions(short, []) if item.kind == "not-offered"]
    assert (weak.concurrency, weak.survives) == (40, False)
    assert weak.span.inside(Span(Fraction(34), Fraction(36)))


# What follows from a reading


def test_a_knee_where_the_requests_ran_out_is_none(store: Store, reading: Artifact) -> None:
    """By stated users the long ladders turn at 100; only three levels differ in what was in flight."""
    knees = {
        (row["series"], row["load"]): row for row in seal_roofline(store, "mi325x-cookbook").rows("knees")
    }
    assert knees["kimi-k2.5/multi-run", "stated"]["at"] == 100
    flying = knees["kimi-k2.5/multi-run", "in flight"]
    assert (flying["levels"], flying["at"], flying["standing"]) == (3, None, "no knee within the ladder")
    stress = knees["llama-3.1-405b/stress/saturation", "in flight"]
    assert stress["levels"] == 4 and stress["before"] == 200 and stress["high"] in (300, None)


def test_cells_at_inferred_lengths_are_in_sample(store: Store, reading: Artifact) -> None:
    cells = seal_roofline(store, "mi325x-cookbook").rows("cells")
    pairs = {(row["lengths"], row["relation"]) for row in cells}
    assert pairs == {("stated", "independent"), ("inferred", "in-sample")}
    row = next(row for row in cells if (row["series"], row["concurrency"], row["lengths"]) == (
        "llama-3.1-405b/stress/saturation", 1000, "inferred"))  # fmt: skip
    assert 440 < row["in_flight"] < 450 and row["isl"] + row["osl"] == pytest.approx(422.8, abs=1)


def test_costs_carry_the_findings_of_their_level(store: Store, reading: Artifact) -> None:
    transcribe(read_publication(PUBLICATIONS / "gpu-prices.toml"), store)
    rows = {
        (row["series"], row["concurrency"]): row for row in seal_costs(store, "mi325x-cookbook").rows("costs")
    }
    assert rows["llama-3.1-405b/fine-sweep", 500]["findings"] == ["above-dense-peak", "length"]
    assert rows["qwen3-vl-235b/stress/scaling", 100]["findings"] == []
    assert "not-offered" in rows["kimi-k2.5/multi-run", 200]["findings"]


# The derivation


def test_it_is_recomputed_from_its_inputs(store: Store, reading: Artifact) -> None:
    assert list(store.recompute()) == []
    assert seal_reading(store, "mi325x-cookbook", "mi325x-crossarch").seal == reading.seal
    names = {artifact.name for artifact in map(store.find, reading.inputs)}
    assert names == {"published-levels", "published-figures", "spec"} and reading.basis == "published"


def test_what_is_missing_is_named(store: Store) -> None:
    with pytest.raises(ArtifactMissing, match="published-levels@nowhere"):
        seal_reading(store, "nowhere")
    with pytest.raises(InputError, match="0 transcriptions"):
        read_tables([])
    with pytest.raises(InputError, match="not among the sealed specs"):
        read_tables([store.find("published-levels@mi325x-cookbook")])
