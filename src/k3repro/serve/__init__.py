"""Serve records, the grammar of what engines print, and health verdicts (docs/design.md)."""

from k3repro.serve.health import Health, health
from k3repro.serve.metrics import Metrics, Sample, parse_metrics
from k3repro.serve.record import facts

__all__ = ["Health", "Metrics", "Sample", "facts", "health", "parse_metrics"]
