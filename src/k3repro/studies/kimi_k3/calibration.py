"""twin-calibration: the constants of the twin from printed cells, as a derivation that can be recomputed.

MI325X: floor and step from its wall law, prefill and batch terms from Table 3. MI300X: floor and step from
its wall law, prefill terms from MI325X by the ratio of the two floors, the batch term from one cell of
Table 4. Long context on both: what a step pays for its longest sequence from one cell of Table 7 a platform,
what prefill pays for pairs of tokens from the one long wave of MI300X, carried to MI325X by the same ratio.
Every other printed cell is held out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any

from k3repro.errors import InputError
from k3repro.store import Artifact, Col, Row, Rows, Schema, derivation
from k3repro.studies.kimi_k3._replays import replay_figures
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
    low: Annotated[int | None, Col(doc="lower end: of the cells' rounding, or of fits almost as good")]
    high: Annotated[int | None, Col(doc="upper end")]
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
Ends = dict[str, tuple[int, int]]
QUANTITIES: dict[str, tuple[str, Callable[[Wave], float]]] = {
    "ttft_p50_s": ("s", lambda wave: wave.ttft_s(0.5)),
    "ttft_p99_s": ("s", lambda wave: wave.ttft_s(0.99)),
    "tpot_ms": ("ms", lambda wave: wave.tpot_ms),
    "out_tokens_per_s": ("tokens/s", lambda wave: wave.tokens_per_s),
}
# The rate of a wave follows from its first-token times and TPOT, and three printed rates contradict the
# columns beside them; fitting it as well would only spread that contradiction over the constants.
_FITTED = ("ttft_p50_s", "ttft_p99_s", "tpot_ms")


REPLAY_CELL = ("small", 1)
"""The row of Table 7 on each platform that gives the price of the longest sequence: profile, concurrency."""

WAVE_CELL = ("mi300x", "200K x 32")
"""The long wave that gives the price of pairs of tokens: platform and name."""

INPUTS = ("published-decode", "published-agentic", "published-memory")
# Half a unit of the last printed digit: of the latency and of k, both in ms; of the minutes.
_LATENCY_HALF, _WAVE_HALF = 0.05 + 0.5, 0.5
# A fit whose loss is within this share of the best one is as good: printed columns contradict each other.
_AS_GOOD = 1.02


@derivation(name="twin-calibration", schema=SCHEMA)
def calibrate(inputs: Sequence[Artifact]) -> Rows:
    """Constants of both platforms with their intervals, and their in-sample residuals.

    Raises:
        InputError: an input is missing.
    """
    by_name = {artifact.name: artifact for artifact in inputs}
    if missing := [name for name in INPUTS if name not in by_name]:
        raise InputError("nothing to calibrate on", fix=f"Give the artifacts {', '.join(missing)}.")
    printed, agentic, memory = (by_name[name] for name in INPUTS)
    wall = {row["platform"]: row for row in printed.rows("wall_law")}
    latency = [row for row in printed.rows("latency") if row["platform"] == "mi325x"]
    cells = {(row["concurrency"], row["max_num_seqs"]): row for row in printed.rows("slots")}
    rate = cells[SLOT_CELL]["out_tokens_per_s"]
    replays = replay_rows(agentic)
    ends: dict[str, Ends] = {"mi325x": {}, "mi300x": {}}
    short = {name: _fixed(name, wall[name]) for name in ends}
    large = search(short["mi325x"], lambda spec: _loss(spec, latency))
    ends["mi325x"] |= _ends(large, latency)
    small = _small(short["mi300x"], large, rate, ends["mi300x"], ends["mi325x"])
    specs = {
        name: with_longest(_as_it_is(spec), replays[name], ends[name])
        for name, spec in (("mi325x", large), ("mi300x", small))
    }
    row = wave_row(memory)
    low, value, high = _pairs(specs["mi300x"], row)
    for name, spec in specs.items():
        scaled = [end * spec.c0_ns // specs["mi300x"].c0_ns for end in (low, value, high)]
        specs[name] = spec.with_overrides({"prefill_pair_fs": str(scaled[1])})
        ends[name]["prefill_pair_fs"] = (scaled[0], scaled[2])
    return {
        "constants": [row for name in specs for row in _constants(name, specs[name], ends[name])],
        "residuals": [
            *_latency_residuals(specs["mi325x"], latency),
            *(row for name in specs for row in _wall_residuals(name, specs[name], wall[name])),
            _slot_residual(specs["mi300x"], rate),
            *(_replay_residual(name, specs[name], *replays[name]) for name in specs),
            _wave_residual(specs["mi300x"], row),
        ],
    }


def replay_rows(agentic: Artifact) -> dict[str, tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """The calibration rows of Table 7 by platform, each with its corpus."""
    profile, concurrency = REPLAY_CELL
    corpus = next(row for row in agentic.rows("corpora") if row["profile"] == profile)
    return {
        row["platform"]: (row, corpus)
        for row in agentic.rows("replays")
        if (row["profile"], row["concurrency"]) == (profile, concurrency)
    }


def wave_row(memory: Artifact) -> Mapping[str, Any]:
    """The calibration wave."""
    return next(row for row in memory.rows("waves") if (row["platform"], row["wave"]) == WAVE_CELL)


def with_longest(spec: Platform, replay: tuple[Mapping[str, Any], Mapping[str, Any]], ends: Ends) -> Platform:
    """The platform with the price of the longest sequence that a row of Table 7 asks for; only k matters."""
    row, corpus = replay

    def run(value: int) -> float:
        trial = spec.with_overrides({"step_longest_ps": str(value)})
        return replay_figures(trial, row, corpus)[0]["itl_p50_ms"]

    low, value, high = solve(run, row["itl_p50_ms"], _LATENCY_HALF)
    ends["step_longest_ps"] = (low, high)
    return spec.with_overrides({"step_longest_ps": str(value)})


def _pairs(spec: Platform, row: Mapping[str, Any]) -> tuple[int, int, int]:
    """The price of a pair of tokens, between its ends, from a wave's printed wall."""

    def run(value: int) -> float:
        trial = spec.with_overrides({"prefill_pair_fs": str(value)})
        return simulate_wave(trial, row["concurrency"], row["isl"], row["osl"]).wall_s / 60

    return solve(run, row["wall_min"], _WAVE_HALF)


def with_pairs(spec: Platform, row: Mapping[str, Any]) -> Platform:
    """The platform with the price of a pair of tokens that a wave's printed wall asks for."""
    return spec.with_overrides({"prefill_pair_fs": str(_pairs(spec, row)[1])})


def solve(run: Callable[[int], float], printed: float, half: float) -> tuple[int, int, int]:
    """What brings `run` to what is printed, between what brings it to either end of its rounding."""
    low, value, high = (_reach(run, printed + change) for change in (-half, 0, half))
    return low, value, high


def _reach(run: Callable[[int], float], printed: float) -> int:
    """The value at which `run`, which grows with it, reaches what is printed, to a part in a thousand."""
    low, high = 0, 100_000_000
    while high - low > max(1000, low // 1000):
        middle = (low + high) // 2
        if run(middle) < printed:
            low = middle
        else:
            high = middle
    return low // 1000 * 1000


def _ends(best: Platform, rows: Sequence[Mapping[str, Any]]) -> Ends:
    """How far each fitted constant can go alone before the loss grows by a fiftieth."""
    most = _loss(best, rows) * _AS_GOOD

    def far(name: str, sign: int) -> int:
        step, value = _STEPS[name], int(getattr(best, name))
        while step >= _STEPS[name] // _FINEST:
            trial = _moved(best, name, value + sign * step)
            if trial is not None and _loss(trial, rows) <= most:
                value += sign * step
            else:
                step //= 2
        return value

    return {name: (far(name, -1), far(name, 1)) for name in _STEPS}


_LONG_CONTEXT = ("step_longest_ps", "step_context_ps", "prefill_pair_fs")


def _fixed(name: str, law: Mapping[str, Any]) -> Platform:
    """C0 and k of the wall law. What long context costs is off while short cells are fitted: they hold about
    a thousand tokens a request, and the trade of a prefill step against its tokens is flat enough for less.
    """
    floor, step = round(law["c0_s"] * 1e9), round(law["k_s_per_token"] * 1e9)
    start = {key: str(value) for key, value in _START.items()}
    return platform(name).with_overrides(
        {"c0_ns": str(floor), "step_ns": str(step), "c0_prompt_tokens": str(ISL), "jitter_ppm": "0", **start}
        | dict.fromkeys(_LONG_CONTEXT, "0")
    )


def _as_it_is(spec: Platform) -> Platform:
    """With what the fullest DP rank's tokens cost switched on again."""
    return spec.with_overrides({"step_context_ps": str(platform(spec.name).step_context_ps)})


def search(spec: Platform, loss: Callable[[Platform], float]) -> Platform:
    """Coordinate descent on whole numbers, with absolute relative errors: outliers among cells that
    contradict each other do not drag the rest.
    """
    best, least = spec, loss(spec)
    divisor = 1
    while divisor <= _FINEST:
        moved = False
        for name, step in _STEPS.items():
            for change in (step // divisor, -step // divisor):
                trial = _moved(best, name, getattr(best, name) + change)
                if trial is not None and (found := loss(trial)) < least:
                    best, least, moved = trial, found, True
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


def _small(spec: Platform, large: Platform, rate: float, ends: Ends, at_large: Ends) -> Platform:
    """MI300X: prefill terms by the ratio of the floors, the batch term by bisection on one rate."""
    above, below = spec.c0_ns, large.c0_ns
    for name in ("prefill_step_ns", "prefill_token_ns"):
        spec = spec.with_overrides({name: str(getattr(large, name) * above // below)})
        ends[name] = (at_large[name][0] * above // below, at_large[name][1] * above // below)
    concurrency, slots = SLOT_CELL
    spec = spec.with_overrides({"max_num_seqs": str(slots)})
    low, value, high = (_batch_term(spec, concurrency, rate + change) for change in (0.5, 0, -0.5))
    ends["step_sequence_ns"] = (low, high)
    return spec.with_overrides({"step_sequence_ns": str(value)})


def _batch_term(spec: Platform, concurrency: int, rate: float) -> int:
    """What a sequence adds to a step, so that a wave has this rate."""
    low, high = 0, 10_000_000
    while high - low > 1000:
        middle = (low + high) // 2
        trial = spec.with_overrides({"step_sequence_ns": str(middle)})
        if simulate_wave(trial, concurrency, ISL, OSL).tokens_per_s > rate:
            low = middle
        else:
            high = middle
    return low // 1000 * 1000


_BASIS = {
    "c0_ns": "wall law: C0",
    "step_ns": "wall law: k",
    "c0_prompt_tokens": "wall law: input length of the sweep",
}
_FREE = {
    "mi325x": {
        **dict.fromkeys(_START, "Table 3"),
        "step_longest_ps": "Table 7, small, concurrency 1",
        "prefill_pair_fs": "MI300X, over the ratio of the two C0",
    },
    "mi300x": {
        "prefill_step_ns": "MI325X, times the ratio of the two C0",
        "prefill_token_ns": "MI325X, times the ratio of the two C0",
        "step_sequence_ns": "Table 4, concurrency 32 at MAX_NUM_SEQS 8",
        "step_longest_ps": "Table 7, small, concurrency 1",
        "prefill_pair_fs": "Long waves, 200K x 32",
    },
}


# Half of the last printed digit of C0 (0.01 s) and of k (1 ms).
_ROUNDED = {"c0_ns": 5_000_000, "step_ns": 500_000, "c0_prompt_tokens": 0}


def _constants(name: str, spec: Platform, ends: Ends) -> Iterator[Constant]:
    for constant, basis in {**_BASIS, **_FREE[name]}.items():
        value = getattr(spec, constant)
        half = _ROUNDED.get(constant, 0)
        low, high = ends.get(constant, (value - half, value + half))
        yield Constant(
            platform=name, constant=constant, value=value, low=low, high=high, calibrated_on=basis
        )  # fmt: skip


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


def _replay_residual(
    name: str, spec: Platform, row: Mapping[str, Any], corpus: Mapping[str, Any]
) -> Residual:
    cell, found = f"Table 7, {REPLAY_CELL[0]}, con {REPLAY_CELL[1]}", replay_figures(spec, row, corpus)
    return _residual(name, cell, "itl_p50_ms", "ms", row["itl_p50_ms"], found[0]["itl_p50_ms"])


def _wave_residual(spec: Platform, row: Mapping[str, Any]) -> Residual:
    wall = simulate_wave(spec, row["concurrency"], row["isl"], row["osl"]).wall_s / 60
    return _residual(row["platform"], f"Long waves, {row['wave']}", "wall_min", "min", row["wall_min"], wall)
