"""Figures of a publication that follow from others of it: recomputed with the intervals of what is printed.

A rule names a printed figure and the figures it follows from; what is not printed gives no row. Whether a
print stands is the ledger's to say: a row has the place of the print, by which the ledger knows its claim.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from k3repro.printed import Span
from k3repro.studies.node._ladder import printed_span
from k3repro.units import student_t_quantile, variability_factor

__all__ = ["Derived", "derived_figures"]

ROOT_PLACES = 12
_Printed = Mapping[tuple[str, str], Mapping[str, Any]]  # by quantity and model


@dataclass(frozen=True, slots=True)
class Derived:
    """A derived figure: what, how, its interval; what is printed of it and where, or empty."""

    what: str
    model: str
    formula: str
    span: Span
    unit: str
    printed: str = ""
    place: str = ""


def derived_figures(
    figures: Sequence[Mapping[str, Any]], ablation: Sequence[Mapping[str, Any]],
    spread: Sequence[Mapping[str, Any]], levels: Sequence[Mapping[str, Any]],
) -> list[Derived]:  # fmt: skip
    """Everything that follows from the given tables of a publication."""
    known = {(row["quantity"], row["model"]): row for row in figures}
    return [
        *_sums(known), *_peaks(known, levels), *_gains(ablation), *_spreads(spread), *_factors(known, spread),
    ]  # fmt: skip


# what follows: quantity, formula, its parts, how they combine, unit
_Rule = tuple[str, str, tuple[str, ...], Callable[[Sequence[Span]], Span], str]
_SUMS: tuple[_Rule, ...] = (
    ("memory of the node", "GPUs x memory per GPU", ("GPUs", "memory per GPU"),
     lambda x: x[0] * x[1], "GB"),
    ("bandwidth of the node", "GPUs x bandwidth per GPU", ("GPUs", "bandwidth per GPU"),
     lambda x: x[0] * x[1], "TB/s"),
    ("tokens per request", "tokens processed / requests processed",
     ("tokens processed", "requests processed"), lambda x: x[0] / x[1], "tokens/request"),
    ("tokens per request, short workload", "short input + short output", ("short input", "short output"),
     lambda x: x[0] + x[1], "tokens/request"),
    ("tokens per request, long workload", "long input + long output", ("long input", "long output"),
     lambda x: x[0] + x[1], "tokens/request"),
    ("levels of the fine sweep", "(last - first) / step + 1",
     ("fine sweep, last", "fine sweep, first", "fine sweep, step"),
     lambda x: (x[0] - x[1]) / x[2] + Span.point(1), "levels"),
)  # fmt: skip
_COUNTS = ("GPUs", "requests processed", "short input", "short output", "long input", "long output",
           "fine sweep, first", "fine sweep, last", "fine sweep, step")  # fmt: skip


def _figure(known: _Printed, name: str, model: str = "all") -> Span | None:
    row = known.get((name, model))
    if row is None:
        return None
    if name in _COUNTS and row["value"] is not None:
        return Span.point(int(row["value"]))
    return printed_span(row["value_printed"])


def _sums(known: _Printed) -> Iterator[Derived]:
    for what, formula, names, combine, unit in _SUMS:
        parts = [part for name in names if (part := _figure(known, name)) is not None]
        if len(parts) == len(names):
            printed = _print(known.get((what, "all")))
            yield Derived(what, "all", formula, combine(parts), unit, *printed)


def _print(row: Mapping[str, Any] | None) -> tuple[str, str]:
    """What is printed of a figure, and where."""
    return (str(row["value_printed"]), str(row["place"])) if row else ("", "")


def _peaks(known: _Printed, levels: Sequence[Mapping[str, Any]]) -> Iterator[Derived]:
    """A figure called the peak of a model, against the highest rate that any of its ladders prints."""
    for (name, model), row in sorted(known.items()):
        peak = printed_span(row["value_printed"]) if name == "peak" else None
        rates = [
            rate
            for level in levels
            if str(level["series"]).partition("/")[0] == model
            and (rate := printed_span(level["total_tokens_per_s_printed"])) is not None
        ]
        if peak is None or not rates:
            continue
        top = max(rates, key=lambda span: span.low)
        yield Derived(
            "highest rate of any ladder / figure called the peak", model, "max(total tok/s) / peak",
            top / peak, "x", *_print(row),
        )  # fmt: skip


def _gains(ablation: Sequence[Mapping[str, Any]]) -> Iterator[Derived]:
    for row in ablation:
        off, on = printed_span(row["off_tokens_per_s_printed"]), printed_span(row["on_tokens_per_s_printed"])
        if off is None or on is None:
            continue
        gain = (on / off - Span.point(1)).scaled(Fraction(100))
        what = f"ablation at concurrency {row['concurrency']}"
        yield Derived(what, "", "on / off - 1", gain, "%", str(row["difference_percent_printed"]))


def _spreads(spread: Sequence[Mapping[str, Any]]) -> Iterator[Derived]:
    """Coefficient of variation behind a 95 % interval of a mean: half-width x sqrt(n) / t / mean."""
    for row in spread:
        mean = printed_span(row["mean_tokens_per_s_printed"])
        half = printed_span(row["ci95_tokens_per_s_printed"])
        n = row["restarts"]
        if mean is None or half is None or not n or n < 2:
            continue
        t = Fraction(round(n**0.5 / student_t_quantile(0.975, n - 1), ROOT_PLACES))
        cov = (half / mean).scaled(t * 100)
        yield Derived(
            "coefficient of variation at the peak", row["model"], "CI95 x sqrt(n) / t / mean", cov, "%",
            row["cov_high_percent_printed"],
        )  # fmt: skip


def _factors(known: _Printed, spread: Sequence[Mapping[str, Any]]) -> Iterator[Derived]:
    """Printed factors between spreads, against the factor that so many restarts cannot tell from one."""
    counts = {row["model"]: row["restarts"] for row in spread if row["cov_low_percent"] is not None}
    for (name, model), row in sorted(known.items()):
        n, factor = counts.get(model), printed_span(row["value_printed"])
        if not name.startswith("CoV factor") or factor is None or not n:
            continue
        needed = Span.point(Fraction(round(variability_factor(n, n), ROOT_PLACES)))
        yield Derived(
            f"factor that {n} restarts a side cannot tell from one ({name})", model,
            "sqrt of F(0.975; n - 1, n - 1)", needed, "x", *_print(row),
        )  # fmt: skip
