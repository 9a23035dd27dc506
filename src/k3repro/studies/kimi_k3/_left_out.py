"""Constants fitted again without one platform, or without one table of the publication."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from k3repro.store import Artifact
from k3repro.studies.kimi_k3 import calibration as fit
from k3repro.twin import Platform
from k3repro.twin.waves import simulate_wave
from k3repro.units import quantile

__all__ = ["fits_without"]

_PREFILL = ("prefill_step_ns", "prefill_token_ns", "prefill_pair_fs")
_DECODE = ("step_sequence_ns", "step_longest_ps")
_Specs = dict[str, Platform]
_Cell = Mapping[str, Any]


def fits_without(
    specs: Mapping[str, Platform], inputs: Mapping[str, Artifact]
) -> Iterator[tuple[str, str, _Specs, Callable[[_Cell], bool]]]:
    """What is left out, what the fit rests on instead, the platforms, and which cells were left out."""
    large, small = specs["mi325x"], specs["mi300x"]
    decode, memory = inputs["published-decode"], inputs["published-memory"]
    alone = _mi300x_alone(small, decode, memory)
    yield (
        "mi325x", "MI300X: Table 4, Table 7, the long wave; prefill by the ratio of C0, decode by k",
        {"mi325x": _carried(alone, large), "mi300x": alone}, _of("platform", "mi325x"),
    )  # fmt: skip
    pair = _pair_of_mi325x(large, memory)
    yield (
        "mi300x", "MI325X: Table 3, Table 7, 512K x 16; prefill by the ratio of C0, decode by k",
        {"mi325x": pair, "mi300x": _carried(pair, small)}, _of("platform", "mi300x"),
    )  # fmt: skip
    yield (
        "Table 3", "MI300X alone, as above",
        {"mi325x": _carried(alone, large), "mi300x": alone}, _of("source", "Table 3"),
    )  # fmt: skip
    batch = {"step_sequence_ns": str(large.step_sequence_ns * small.step_ns // large.step_ns)}
    yield (
        "Table 4", "the batch term from MI325X by the ratio of k",
        {"mi325x": large, "mi300x": small.with_overrides(batch)}, _of("source", "Table 4"),
    )  # fmt: skip
    free = {name: spec.with_overrides({"step_longest_ps": "0"}) for name, spec in specs.items()}
    yield (
        "Table 7",
        "nothing: no other table shows what the longest sequence costs",
        free,
        _of("source", "Table 7"),
    )
    flat = {name: spec.with_overrides({"prefill_pair_fs": "0"}) for name, spec in specs.items()}
    source = "Long waves, in the text"
    yield source, "nothing: no other table shows what pairs of tokens cost", flat, _of("source", source)


def _of(key: str, value: str) -> Callable[[_Cell], bool]:
    return lambda cell: bool(cell[key] == value)


def _carried(source: Platform, target: Platform) -> Platform:
    """`target` with its own C0 and k, and the rest of `source` by their ratios."""
    changed = {name: getattr(source, name) * target.c0_ns // source.c0_ns for name in _PREFILL}
    changed |= {name: getattr(source, name) * target.step_ns // source.step_ns for name in _DECODE}
    return target.with_overrides({name: str(value) for name, value in changed.items()})


def _mi300x_alone(spec: Platform, decode: Artifact, memory: Artifact) -> Platform:
    """MI300X with prefill and batch terms from Table 4 alone, then the pair term from its wave."""
    rows = decode.rows("slots")

    def loss(trial: Platform) -> float:
        total = 0.0
        for row in rows:
            slots = trial.with_overrides({"max_num_seqs": str(row["max_num_seqs"])})
            wave = simulate_wave(slots, row["concurrency"], fit.ISL, fit.OSL)
            total += abs(wave.tokens_per_s / row["out_tokens_per_s"] - 1)
        return total

    return fit.with_pairs(fit.search(spec, loss), fit.wave_row(memory))


def _pair_of_mi325x(spec: Platform, memory: Artifact) -> Platform:
    """MI325X with the pair term from its own long wave, 512K x 16."""
    row = next(row for row in memory.rows("waves") if row["platform"] == "mi325x")

    def run(value: int) -> float:
        trial = spec.with_overrides({"prefill_pair_fs": str(value)})
        wave = simulate_wave(trial, row["concurrency"], row["isl"], row["osl"])
        return quantile([time / 6e10 for time in wave.first_ns], 0.5)

    return spec.with_overrides({"prefill_pair_fs": str(fit.solve(run, row["ttft_min"], 0.5)[1])})
