"""latency: time to first token and per output token as concurrency grows (publication, Table 3).

Bursts like those of the envelope, repeated until enough requests stand behind a quantile: 100 a concurrency
carry the median and p90; a p99 takes 500.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from k3repro.client import REQUESTS_TABLE
from k3repro.errors import UsageError
from k3repro.probes._session import Session
from k3repro.probes.crosscheck import event_reasons
from k3repro.probes.plan import Rung, by_concurrency
from k3repro.probes.tables import CONSTRUCTION_TABLE, RUNGS_TABLE
from k3repro.store import Schema

NAME = "latency"
PERFORMANCE = True
P99_REQUESTS = 500  # units.stats: n (1 - q) of at least five
SCHEMA = Schema((REQUESTS_TABLE, RUNGS_TABLE, CONSTRUCTION_TABLE))


@dataclass(frozen=True, slots=True)
class Parameters:
    """Shape of the requests, requests in flight, and at least how many requests per concurrency."""

    isl: int = 1024
    osl: int = 256
    concurrency: tuple[int, ...] = (4, 8, 16, 32, 64, 128)
    requests: int = 100
    p99: bool = False
    timeout_s: float = 1800.0


def plan(parameters: Parameters) -> list[Rung]:
    """Waves of one concurrency each, as many as `requests` takes."""
    if not parameters.concurrency or min(parameters.concurrency) < 1 or parameters.requests < 1:
        raise UsageError(
            "a latency ladder needs concurrencies and requests", fix="For example --concurrency 4,64."
        )
    requests = max(parameters.requests, P99_REQUESTS) if parameters.p99 else parameters.requests
    return by_concurrency(parameters, lambda c: math.ceil(requests / c))


def procedure(session: Session, parameters: Parameters) -> None:
    """Calibrate, canary, the ladder, canary."""
    session.ladder(plan(parameters))


def verdict(session: Session, parameters: Parameters) -> dict[str, Any]:
    """Valid when every rung is, and when events are tokens, because times per token are the result."""
    return session.verdict(event_reasons(session.run.rows("requests")))
