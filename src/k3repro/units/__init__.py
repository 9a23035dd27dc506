"""Rounding, quantities and statistics rules: the one place where numbers become text."""

from k3repro.units.quantity import GB, GIB, KI, K, parse_bytes, parse_tokens
from k3repro.units.rounding import format_decimal, round_decimal, thousands
from k3repro.units.stats import (
    Interval,
    f_quantile,
    failure_rate_bound,
    highest_quantile,
    order_free_sum,
    quantile,
    quantile_supported,
    requests_for_rate,
    student_t_quantile,
    variability_factor,
    variability_interval,
)

__all__ = [
    "GB",
    "GIB",
    "KI",
    "Interval",
    "K",
    "f_quantile",
    "failure_rate_bound",
    "format_decimal",
    "highest_quantile",
    "order_free_sum",
    "parse_bytes",
    "parse_tokens",
    "quantile",
    "quantile_supported",
    "requests_for_rate",
    "round_decimal",
    "student_t_quantile",
    "thousands",
    "variability_factor",
    "variability_interval",
]
