"""Comparisons as derivations: the effect of an A/B ablation with its interval, and the slot intervention."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from k3repro.errors import InputError
from k3repro.probes.shapes import knee
from k3repro.probes.slots import rates
from k3repro.store import Artifact, Col, Row, Rows, Schema, derivation
from k3repro.units import order_free_sum, student_t_quantile, variability_factor, variability_interval


class Effect(Row, table="effect", key=("concurrency",)):
    """Output rate of both sides per concurrency, and the relative difference."""

    concurrency: Annotated[int, Col("requests")]
    side_a: str | None
    side_b: str | None
    n_a: Annotated[int | None, Col(doc="serves of side A")]
    n_b: Annotated[int | None, Col(doc="serves of side B")]
    rate_a: Annotated[float | None, Col("tokens/s", "mean over serves")]
    rate_b: Annotated[float | None, Col("tokens/s", "mean over serves")]
    cv_a: Annotated[float | None, Col(doc="coefficient of variation between serves; NULL with one")]
    cv_b: Annotated[float | None, Col(doc="coefficient of variation between serves; NULL with one")]
    effect: Annotated[float | None, Col(doc="rate_b / rate_a - 1")]
    effect_low: Annotated[
        float | None, Col(doc="95 % interval over serves (Welch); NULL below three serves a side")
    ]
    effect_high: Annotated[
        float | None, Col(doc="95 % interval over serves (Welch); NULL below three serves a side")
    ]
    standing: Annotated[str | None, Col(doc="what may be said of it")]
    cv_ratio: Annotated[
        float | None, Col(doc="cv_b / cv_a; NULL below three serves a side or without spread")
    ]
    cv_ratio_low: Annotated[float | None, Col(doc="95 % interval (Fisher's F, serves taken as normal)")]
    cv_ratio_high: Annotated[float | None, Col(doc="95 % interval (Fisher's F, serves taken as normal)")]
    cv_factor: Annotated[
        float | None, Col(doc="a ratio must exceed this at these n before it shows anything")
    ]
    variability: Annotated[str | None, Col(doc="what may be said of the spread between serves")]


_FEWEST = 3
_CONFIDENCE = 0.95


@derivation(name="ablation-effect", schema=Schema((Effect.TABLE,)))
def effect(inputs: Sequence[Artifact]) -> Rows:
    """B against A per concurrency; an interval from three serves a side on.

    Raises:
        InputError: not two sides, or not the same shape on both.
    """
    first, second = _sides(inputs)
    _same_shape(inputs, apart={"side", "restart", "seed"})
    a, b = ([dict(rates(x.rows("rungs"))) for x in side] for side in (first, second))
    shared = set.intersection(*(set(found) for found in a + b))
    names = (first[0].subject, second[0].subject)
    rows = [_row(c, names, [x[c] for x in a], [x[c] for x in b]) for c in sorted(shared)]
    return {"effect": rows}


def _row(c: int, names: tuple[str, str], a: Sequence[float], b: Sequence[float]) -> Effect:
    low, high = _interval(a, b)
    if low is None or high is None:
        standing = f"within {min(len(a), len(b))} serve a side: no interval, no claim"
    else:
        standing = "differs" if low > 0 or high < 0 else "no difference shown"
    return Effect(
        concurrency=c, side_a=names[0], side_b=names[1], n_a=len(a), n_b=len(b),
        rate_a=_mean(a), rate_b=_mean(b), cv_a=_cv(a), cv_b=_cv(b),
        effect=_mean(b) / _mean(a) - 1, effect_low=low, effect_high=high, standing=standing,
        **spread_of(_cv(a), _cv(b), len(a), len(b)),
    )  # fmt: skip


def spread_of(cv_a: float | None, cv_b: float | None, n_a: int, n_b: int) -> dict[str, Any]:
    """What the spreads of two sides say: ratio, interval, the factor it has to exceed, and a verdict."""
    if min(n_a, n_b) < _FEWEST:
        said = f"{min(n_a, n_b)} serve a side: no spread, no claim"
        return dict.fromkeys(("cv_ratio", "cv_ratio_low", "cv_ratio_high", "cv_factor")) | {
            "variability": said
        }
    factor = variability_factor(n_a, n_b, _CONFIDENCE)
    if not cv_a or not cv_b:
        said = "a side without any spread"
        return dict.fromkeys(("cv_ratio", "cv_ratio_low", "cv_ratio_high")) | {
            "cv_factor": factor, "variability": said,
        }  # fmt: skip
    found = variability_interval(cv_b / cv_a, n_a, n_b, _CONFIDENCE)
    said = "no difference in variability shown"
    if found.low > 1 or found.high < 1:
        said = "more variable" if found.low > 1 else "less variable"
    return {
        "cv_ratio": cv_b / cv_a, "cv_ratio_low": found.low, "cv_ratio_high": found.high,
        "cv_factor": factor, "variability": said,
    }  # fmt: skip


def _mean(values: Sequence[float]) -> float:
    return order_free_sum(values) / len(values)


def _variance(values: Sequence[float]) -> float:
    mean = _mean(values)
    return order_free_sum((value - mean) ** 2 for value in values) / (len(values) - 1)


def _cv(values: Sequence[float]) -> float | None:
    return math.sqrt(_variance(values)) / _mean(values) if len(values) > 1 else None


def _interval(a: Sequence[float], b: Sequence[float]) -> tuple[float | None, float | None]:
    """Welch's interval of mean(b) - mean(a), relative to mean(a); degrees of freedom rounded down."""
    if min(len(a), len(b)) < _FEWEST:
        return None, None
    parts = [_variance(side) / len(side) for side in (a, b)]
    spread = sum(parts)
    if spread == 0:
        difference = _mean(b) / _mean(a) - 1
        return difference, difference
    below = sum(part**2 / (len(side) - 1) for part, side in zip(parts, (a, b), strict=True))
    half = student_t_quantile((1 + _CONFIDENCE) / 2, max(1, math.floor(spread**2 / below))) * math.sqrt(
        spread
    )
    difference = _mean(b) - _mean(a)
    return (difference - half) / _mean(a), (difference + half) / _mean(a)


class SlotsEffect(Row, table="slots", key=("concurrency",)):
    """One pool at two slot ceilings: rates, gains per step, where the knee went (publication, Table 4)."""

    concurrency: Annotated[int, Col("requests")]
    low_target: str | None
    high_target: str | None
    low_max_num_seqs: Annotated[int | None, Col(doc="NULL: not known")]
    high_max_num_seqs: Annotated[int | None, Col(doc="NULL: not known")]
    low_rate: Annotated[float | None, Col("tokens/s")]
    high_rate: Annotated[float | None, Col("tokens/s")]
    low_gain: Annotated[float | None, Col(doc="over the rung before; NULL at the first")]
    high_gain: Annotated[float | None, Col(doc="over the rung before; NULL at the first")]
    low_knee: Annotated[int | None, Col("requests", "NULL: none within the ladder")]
    high_knee: Annotated[int | None, Col("requests", "NULL: none within the ladder")]
    standing: str | None


@derivation(name="slots-effect", schema=Schema((SlotsEffect.TABLE,)))
def slot_effect(inputs: Sequence[Artifact]) -> Rows:
    """The two sides beside each other, the lower ceiling first.

    Raises:
        InputError: not two sides, another shape, or another pool.
    """
    first, second = _sides(inputs)
    _same_shape(inputs, apart={"max_num_seqs", "seed"})
    low, high = sorted((first[0], second[0]), key=lambda x: (x.parameters["max_num_seqs"], x.subject))
    a, b = dict(rates(low.rows("rungs"))), dict(rates(high.rows("rungs")))
    knees = knee(sorted(a.items())), knee(sorted(b.items()))
    moved = (
        "the knee moved: slots set it"
        if knees[0] is not None and knees[0] != knees[1]
        else "the knee did not move"
    )
    common: dict[str, Any] = {
        "low_target": low.subject, "high_target": high.subject,
        "low_max_num_seqs": low.parameters["max_num_seqs"] or None,
        "high_max_num_seqs": high.parameters["max_num_seqs"] or None,
        "low_knee": knees[0], "high_knee": knees[1], "standing": f"{moved}; one serve a side",
    }  # fmt: skip
    shared = sorted(set(a) & set(b))
    before: list[int | None] = [None, *shared]
    rows = [
        SlotsEffect(
            concurrency=c, low_rate=a[c], high_rate=b[c], low_gain=_gain(a, p, c), high_gain=_gain(b, p, c),
            **common,
        )
        for p, c in zip(before, shared, strict=False)
    ]  # fmt: skip
    return {"slots": rows}


def _gain(found: Mapping[int, float], before: int | None, c: int) -> float | None:
    return None if before is None else found[c] / found[before] - 1


def _sides(artifacts: Sequence[Artifact]) -> tuple[list[Artifact], list[Artifact]]:
    subjects = list(dict.fromkeys(artifact.subject for artifact in artifacts))
    if len(subjects) != 2:
        raise InputError(f"a comparison has two sides, not {len(subjects)}")
    first, second = ([x for x in artifacts if x.subject == subject] for subject in subjects)
    return first, second


def _same_shape(artifacts: Sequence[Artifact], apart: set[str]) -> None:
    shapes = {str(sorted((k, v) for k, v in x.parameters.items() if k not in apart)) for x in artifacts}
    if len(shapes) > 1:
        fix = "Measure both with the same shape, pool and ladder; only the setting under test may differ."
        raise InputError("the sides were not measured alike", fix=fix)
