"""The detectors: each recognises one kind of relation under a precondition that its docstring states."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from k3repro.check._relation import Relation
from k3repro.check._text import Context
from k3repro.check.detect import (
    aggregates,
    baselines,
    captions,
    changes,
    columns,
    comparisons,
    conversions,
    enumerations,
    equations,
    facts,
    formulas,
    latencies,
    limits,
    listings,
    notes,
    parts,
    percentiles,
    products,
    quotes,
    repeats,
    restatements,
    topologies,
)

__all__ = ["DETECTORS", "PRECONDITIONS"]

DETECTORS: tuple[Callable[[Context], Iterator[Relation]], ...] = (
    changes.detect,
    comparisons.detect,
    columns.detect,
    baselines.detect,
    notes.detect,
    aggregates.detect,
    products.detect,
    listings.detect,
    latencies.detect,
    percentiles.detect,
    equations.detect,
    conversions.detect,
    topologies.detect,
    enumerations.detect,
    parts.detect,
    quotes.detect,
    captions.detect,
    repeats.detect,
    restatements.detect,
    formulas.detect,
    facts.detect,
    limits.detect,
)

_OF_DETECTOR = {
    "from-to": changes,
    "vs": changes,
    "table-change": columns,
    "table-baseline": baselines,
    "table-aggregate": aggregates,
    "table-note": notes,
    "annotation": comparisons,
    "percent-of": comparisons,
    "table-product": products,
    "listing": listings,
    "latency-sum": latencies,
    "littles-law": latencies,
    "percentiles": percentiles,
    "equation": equations,
    "conversion": conversions,
    "reciprocal": conversions,
    "gpus": topologies,
    "degrees": topologies,
    "count": enumerations,
    "shares": parts,
    "ranges": parts,
    "quote": quotes,
    "caption": captions,
    "heading": quotes,
    "repeat": repeats,
    "restatement": restatements,
    "headline": restatements,
    "formula": formulas,
    "fact": facts,
    "kv-bytes": limits,
    "weights": limits,
    "peak": limits,
}
PRECONDITIONS = {name: " ".join((module.__doc__ or "").split()) for name, module in _OF_DETECTOR.items()}
"""What each detector recognises and under which precondition, by the name its relations carry."""
