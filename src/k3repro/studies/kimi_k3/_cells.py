"""Printed cells and what one set of constants gives for each: waves of equal requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from k3repro.store import Artifact
from k3repro.studies.kimi_k3.calibration import ISL, OSL, QUANTITIES
from k3repro.twin import Platform
from k3repro.twin.waves import simulate_wave
from k3repro.units import quantile

__all__ = ["Cell", "cell_row", "classes", "envelope", "latency", "long_waves", "slots"]

Cell = dict[str, Any]


def cell_row(
    platform: str, source: str, cell: str, quantity: str, regime: str, unit: str, printed: float,
    simulated: float | None, why: str | None = None, *,
    isl: int | None = None, concurrency: int | None = None,
    draws: tuple[float | None, float | None] = (None, None),
) -> Cell:  # fmt: skip
    """One row of the table of cells, before it is judged; `draws` are the least and most of several."""
    return {
        "platform": platform, "source": source, "cell": cell, "quantity": quantity, "regime": regime,
        "unit": unit, "printed": printed, "simulated": simulated, "why": why,
        "asked_output": None, "implied_output": None, "isl": isl, "concurrency": concurrency,
        "least_draw": draws[0], "most_draw": draws[1],
    }  # fmt: skip


def regime_of(concurrency: int, slots: int) -> str:
    if concurrency > slots:
        return "slots"
    return "floor" if concurrency <= 8 else "prefill queue"


def latency(spec: Platform, decode: Artifact) -> Iterator[Cell]:
    """Table 3."""
    for row in decode.rows("latency"):
        wave = simulate_wave(spec, row["concurrency"], ISL, OSL)
        for quantity, (unit, take) in QUANTITIES.items():
            yield cell_row(
                row["platform"], "Table 3", f"con {row['concurrency']}", quantity,
                regime_of(row["concurrency"], spec.slots), unit, row[quantity], take(wave),
                isl=ISL, concurrency=row["concurrency"],
            )  # fmt: skip


def slots(spec: Platform, decode: Artifact) -> Iterator[Cell]:
    """Table 4."""
    for row in decode.rows("slots"):
        key = (row["concurrency"], row["max_num_seqs"])
        chosen = spec.with_overrides({"max_num_seqs": str(row["max_num_seqs"])})
        wave = simulate_wave(chosen, row["concurrency"], ISL, OSL)
        yield cell_row(
            "mi300x", "Table 4", f"con {key[0]}, MAX_NUM_SEQS {key[1]}", "out_tokens_per_s",
            regime_of(key[0], chosen.slots), "tokens/s", row["out_tokens_per_s"], wave.tokens_per_s,
            isl=ISL, concurrency=key[0],
        )  # fmt: skip


def envelope(specs: Mapping[str, Platform], decode: Artifact) -> Iterator[Cell]:
    """The concurrency envelope."""
    for row in decode.rows("envelope"):
        spec, quantity = specs[row["platform"]], row["quantity"]
        wave = simulate_wave(spec, row["concurrency"], ISL, OSL)
        alone = simulate_wave(spec, 1, ISL, OSL)
        simulated = {
            "wall": wave.wall_s,
            "throughput": wave.tokens_per_s,
            "wall_over_floor": wave.wall_s / alone.wall_s,
            "throughput_over_single": wave.tokens_per_s / alone.tokens_per_s,
        }[quantity]
        yield cell_row(
            row["platform"], "The Concurrency Envelope", f"con {row['concurrency']}", quantity,
            regime_of(row["concurrency"], spec.slots), row["unit"], row["value"], simulated,
            isl=ISL, concurrency=row["concurrency"],
        )  # fmt: skip


def classes(specs: Mapping[str, Platform], decode: Artifact) -> Iterator[Cell]:
    """Table 5. Total less output is the rate of prompt tokens, which holds whatever lengths came back."""
    for row in decode.rows("classes"):
        spec, isl, osl = specs[row["platform"]], row["isl"], row["osl"]
        wave = simulate_wave(spec, row["concurrency"], isl, osl)
        out, prompts = wave.tokens_per_s, wave.tokens_per_s * isl / osl
        regime = "long context" if isl >= 32_000 else regime_of(row["concurrency"], spec.slots)
        printed = {name: row[name] for name in ("out_tokens_per_s", "total_tokens_per_s")}
        printed["in_tokens_per_s"] = row["total_tokens_per_s"] - row["out_tokens_per_s"]
        simulated = {"out_tokens_per_s": out, "total_tokens_per_s": out + prompts, "in_tokens_per_s": prompts}
        length = isl * row["out_tokens_per_s"] / printed["in_tokens_per_s"]
        for quantity, value in printed.items():
            yield cell_row(
                row["platform"], "Table 5", row["class"], quantity, regime, "tokens/s", value,
                simulated[quantity], isl=isl, concurrency=row["concurrency"],
            ) | {"asked_output": osl, "implied_output": length}  # fmt: skip


def long_waves(specs: Mapping[str, Platform], memory: Artifact) -> Iterator[Cell]:
    """Waves of long prompts that the text tells of.

    What "the first token" of a wave is, is not said: here the median one, between the first and the last of
    the requests that a lane works off one after another.
    """
    for row in memory.rows("waves"):
        wave = simulate_wave(specs[row["platform"]], row["concurrency"], row["isl"], row["osl"])
        first = quantile([time / 1e9 for time in wave.first_ns], 0.5)
        for quantity, seconds in (("wall_min", wave.wall_s), ("ttft_min", first)):
            if row[quantity] is not None:
                yield cell_row(
                    row["platform"], "Long waves, in the text", row["wave"], quantity, "long context", "min",
                    row[quantity], seconds / 60,
                    isl=row["isl"], concurrency=row["concurrency"],
                )  # fmt: skip
