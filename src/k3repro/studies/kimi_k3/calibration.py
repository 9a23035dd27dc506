"""twin-calibration: the constants of the twin from printed cells, as a derivation that can be recomputed.

MI325X: floor and step from its wall law, prefill and batch terms from Table 3. MI300X: floor and step from
its wall law, prefill terms from MI325X by the ratio of the two floors, the batch term from one cell of
Table 4. Every other printed cell is held out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any

from k3repro.errors import InputError
from k3repro.store import Artifact, Col, Row, Rows, Schema, derivation
from k3repro.twin import Platform, platform
from k3repro.twin.waves import Wave, simulate_wave

ISL, OSL = 1024, 256
SLOT_CELL = (32, 8)
"""The one cell of Table 4 that MI300X is calibrated on: concurrency, MAX_NUM_SEQS."""


class Constant(Row, table="constants", key=("platform", "constant")):
    """What platforms.toml holds."""

    platform: str | None
    constant: Annotated[str | None, Col(doc="field of k3repro.twin.Platform")]
    value: Annotated[int | None, Col(doc="in the unit its name ends with")]
    calibrated_on: Annotated[str | None, Col(doc="printed cells")]


class Residual(Row, table="residuals", key=("platform", "cell", "quantity")):
    """In-sample residuals: how well the fitted form fits its own data, no test of anything."""

    platform: str | None
    cell: str | None
    quantity: str | None
    unit: str | None
    printed: float | None
    simulated: float | None
    residual: Annotated[float | None, Col(doc="simulated / printed - 1, of a cell it was fitted to")]


SCHEMA = Schema((Constant.TABLE, Residual.TABLE))

_START = {"prefill_step_ns": 300_000_000, "prefill_token_ns": 150_000, "step_sequence_ns": 200_000}
_STEPS = {"prefill_step_ns": 64_000_000, "prefill_token_ns": 32_000, "step_sequence_ns": 64_000}
_FINEST = 64  # the search ends at a sixty-fourth of its first steps
QUANTITIES: dict[str, tuple[str, Callable[[Wave], float]]] = {
    "ttft_p50_s": ("s", lambda wave: wave.ttft_s(0.5)),
    "ttft_p99_s": ("s", lambda wave: wave.ttft_s(0.99)),
    "tpot_ms": ("ms", lambda wave: wave.tpot_ms),
    "out_tokens_per_s": ("tokens/s", lambda wave: wave.tokens_per_s),
}
# The rate of a wave follows from its first-token times and TPOT, and three printed rates contradict the
# columns beside them; fitting it as well would only spread that contradiction over the constants.
_FITTED = ("ttft_p50_s", "ttft_p99_s", "tpot_ms")


@derivation(name="twin-calibration", schema=SCHEMA)
def calibrate(inputs: Sequence[Artifact]) -> Rows:
    """Constants of both platforms from `published-decode`, with their in-sample residuals.

    Raises:
        InputError: `published-decode` is not among the inputs.
    """
    printed = next((artifact for artifact in inputs if artifact.name == "published-decode"), None)
    if printed is None:
        raise InputError("nothing to calibrate on", fix="Give the artifact published-decode.")
    wall = {row["platform"]: row for row in printed.rows("wall_law")}
    latency = [row for row in printed.rows("latency") if row["platform"] == "mi325x"]
    cells = {(row["concurrency"], row["max_num_seqs"]): row for row in printed.rows("slots")}
    large = _search(_fixed("mi325x", wall["mi325x"]), latency)
    small = _small(wall, large, cells[SLOT_CELL]["out_tokens_per_s"])
    return {
        "constants": [*_constants("mi325x", large), *_constants("mi300x", small)],
        "residuals": [
            *_latency_residuals(large, latency),
            *_wall_residuals("mi325x", large, wall["mi325x"]),
            *_wall_residuals("mi300x", small, wall["mi300x"]),
            _slot_residual(small, cells[SLOT_CELL]["out_tokens_per_s"]),
        ],
    }


def _fixed(name: str, law: Mapping[str, Any]) -> Platform:
    floor, step = round(law["c0_s"] * 1e9), round(law["k_s_per_token"] * 1e9)
    start = {key: str(value) for key, value in _START.items()}
    return platform(name).with_overrides(
        {"c0_ns": str(floor), "step_ns": str(step), "c0_prompt_tokens": str(ISL), "jitter_ppm": "0", **start}
    )


def _search(spec: Platform, rows: Sequence[Mapping[str, Any]]) -> Platform:
    """Coordinate descent on whole numbers, with absolute relative errors: outliers among cells that
    contradict each other do not drag the rest.
    """
    best, loss = spec, _loss(spec, rows)
    divisor = 1
    while divisor <= _FINEST:
        moved = False
        for name, step in _STEPS.items():
            for change in (step // divisor, -step // divisor):
                value = getattr(best, name) + change
                trial = _moved(best, name, value)
                if trial is not None and (found := _loss(trial, rows)) < loss:
                    best, loss, moved = trial, found, True
        if not moved:
            divisor *= 2
    return best


def _moved(spec: Platform, name: str, value: int) -> Platform | None:
    try:
        return spec.with_overrides({name: str(value)})
    except Exception:  # a floor below its parts is no platform
        return None


def _loss(spec: Platform, rows: Sequence[Mapping[str, Any]]) -> float:
    total = 0.0
    for row in rows:
        wave = simulate_wave(spec, row["concurrency"], ISL, OSL)
        total += sum(abs(QUANTITIES[name][1](wave) / row[name] - 1) for name in _FITTED)
    return total


def _small(wall: Mapping[str, Mapping[str, Any]], large: Platform, rate: float) -> Platform:
    """MI300X: prefill terms by the ratio of the floors, the batch term by bisection on one rate."""
    spec = _fixed("mi300x", wall["mi300x"])
    above, below = spec.c0_ns, large.c0_ns
    scaled = {
        name: str(getattr(large, name) * above // below) for name in ("prefill_step_ns", "prefill_token_ns")
    }
    concurrency, slots = SLOT_CELL
    spec = spec.with_overrides({**scaled, "max_num_seqs": str(slots)})
    low, high = 0, 10_000_000
    while high - low > 1000:
        middle = (low + high) // 2
        trial = spec.with_overrides({"step_sequence_ns": str(middle)})
        if simulate_wave(trial, concurrency, ISL, OSL).tokens_per_s > rate:
            low = middle
        else:
            high = middle
    return spec.with_overrides({"step_sequence_ns": str(low // 1000 * 1000)})


_BASIS = {
    "c0_ns": "wall law: C0",
    "step_ns": "wall law: k",
    "c0_prompt_tokens": "wall law: input length of the sweep",
}
_FREE = {
    "mi325x": dict.fromkeys(_START, "Table 3"),
    "mi300x": {
        "prefill_step_ns": "MI325X, times the ratio of the two C0",
        "prefill_token_ns": "MI325X, times the ratio of the two C0",
        "step_sequence_ns": "Table 4, concurrency 32 at MAX_NUM_SEQS 8",
    },
}


def _constants(name: str, spec: Platform) -> Iterator[Constant]:
    for constant, basis in {**_BASIS, **_FREE[name]}.items():
        yield Constant(platform=name, constant=constant, value=getattr(spec, constant), calibrated_on=basis)


def _residual(name: str, cell: str, quantity: str, unit: str, printed: float, simulated: float) -> Residual:
    return Residual(
        platform=name, cell=cell, quantity=quantity, unit=unit, printed=printed, simulated=simulated,
        residual=simulated / printed - 1,
    )  # fmt: skip


def _latency_residuals(spec: Platform, rows: Sequence[Mapping[str, Any]]) -> Iterator[Residual]:
    for row in rows:
        wave = simulate_wave(spec, row["concurrency"], ISL, OSL)
        for quantity, (unit, take) in QUANTITIES.items():
            cell = f"Table 3, con {row['concurrency']:>3}"
            yield _residual("mi325x", cell, quantity, unit, row[quantity], take(wave))


def _wall_residuals(name: str, spec: Platform, law: Mapping[str, Any]) -> Iterator[Residual]:
    short, long = (simulate_wave(spec, 1, ISL, osl).wall_s for osl in (16, OSL))
    slope = (long - short) / (OSL - 16)
    yield _residual(name, "wall law", "k_s_per_token", "s/token", law["k_s_per_token"], slope)
    yield _residual(name, "wall law", "c0_s", "s", law["c0_s"], short - 16 * slope)


def _slot_residual(spec: Platform, rate: float) -> Residual:
    concurrency, slots = SLOT_CELL
    wave = simulate_wave(spec, concurrency, ISL, OSL)
    cell = f"Table 4, con {concurrency}, MAX_NUM_SEQS {slots}"
    return _residual("mi300x", cell, "out_tokens_per_s", "tokens/s", rate, wave.tokens_per_s)
