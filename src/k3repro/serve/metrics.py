"""Reading Prometheus text: `/metrics` of an engine or router as samples, and sums over their labels."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

_SERIES = re.compile(r"([A-Za-z_:][A-Za-z0-9_:]*)(?:\{(.*)\})?")
_SAMPLE = re.compile(_SERIES.pattern + r"\s+(\S+)(?:\s+-?\d+)?\s*\Z")
_LABEL = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)="((?:[^"\\]|\\.)*)"\s*(?:,\s*|\Z)')
_ESCAPES = {r"\\": "\\", r"\"": '"', r"\n": "\n"}


class Sample(NamedTuple):
    """One line of metrics text; `value` is None where it is NaN or infinite (a quantile of nothing)."""

    name: str
    labels: Mapping[str, str]
    value: float | None


@dataclass(frozen=True, slots=True)
class Metrics:
    """All samples of one scrape; `unread` counts lines that are neither samples nor comments."""

    samples: tuple[Sample, ...] = ()
    unread: int = 0
    _index: dict[str, list[Sample]] = field(default_factory=dict)

    def named(self, name: str, **labels: str) -> list[Sample]:
        """Samples called `name` (a counter also under its wire name ``name_total``) whose labels match."""
        found = self._index.get(name) or self._index.get(f"{name}_total") or []
        return [s for s in found if all(s.labels.get(key) == value for key, value in labels.items())]

    def total(self, name: str, **labels: str) -> float | None:
        """Sum over all engines and DP ranks; None when one of them does not report it (unknown, not zero)."""
        values = [sample.value for sample in self.named(name, **labels)]
        known = [value for value in values if value is not None]
        return math.fsum(known) if known and len(known) == len(values) else None

    def largest(self, name: str, **labels: str) -> float | None:
        """Largest over all engines and DP ranks; None when none reports it."""
        known = (sample.value for sample in self.named(name, **labels))
        return max((value for value in known if value is not None), default=None)

    def labels(self, name: str) -> Mapping[str, str]:
        """The labels of the first sample called `name`: how info metrics carry configuration."""
        return next((sample.labels for sample in self.named(name)), {})


def parse_metrics(text: str) -> Metrics:
    """Read metrics text; a line that cannot be read is counted, never fatal: a router may add its own."""
    samples, unread = [], 0
    for line in text.split("\n"):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        sample = _sample(line)
        if sample is None:
            unread += 1
        else:
            samples.append(sample)
    index: dict[str, list[Sample]] = {}
    for sample in samples:
        index.setdefault(sample.name, []).append(sample)
    return Metrics(tuple(samples), unread, index)


def _sample(line: str) -> Sample | None:
    # Every scrape repeats what stands before the value; a line with a timestamp is matched as a whole.
    head, _, text = line.strip().rpartition(" ")
    series = _series(head)
    if series is None:
        match = _SAMPLE.match(line.strip())
        if match is None:
            return None
        series, text = (match[1], _labels(match[2] or "")), match[3]
    try:
        value = float(text)
    except ValueError:
        return None
    return Sample(*series, value if math.isfinite(value) else None)


@lru_cache(1 << 14)
def _series(text: str) -> tuple[str, Mapping[str, str]] | None:
    match = _SERIES.fullmatch(text)
    return (match[1], _labels(match[2] or "")) if match else None


def _labels(text: str) -> Mapping[str, str]:
    found = _LABEL.findall(text)
    return MappingProxyType(
        {name: re.sub(r"\\.", lambda m: _ESCAPES.get(m[0], m[0]), value) for name, value in found}
    )
