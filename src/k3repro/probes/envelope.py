"""envelope: throughput and wall-clock as concurrency grows at one shape (publication, Figure 3, Table 4).

Each rung is one wave of as many requests as its concurrency, all sent at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from k3repro.client import REQUESTS_TABLE
from k3repro.errors import UsageError
from k3repro.probes._session import Session
from k3repro.probes.plan import Rung, by_concurrency
from k3repro.probes.tables import CONSTRUCTION_TABLE, RUNGS_TABLE
from k3repro.store import Schema

NAME = "envelope"
PERFORMANCE = True
SCHEMA = Schema((REQUESTS_TABLE, RUNGS_TABLE, CONSTRUCTION_TABLE))


@dataclass(frozen=True, slots=True)
class Parameters:
    """Shape of the ladder; tokens, requests in flight, and waves per rung."""

    isl: int = 1024
    osl: int = 256
    concurrency: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
    waves: int = 1
    timeout_s: float = 1800.0


def plan(parameters: Parameters) -> list[Rung]:
    """One rung per concurrency and wave, smallest first: a degraded serve shows before the costly rungs."""
    if not parameters.concurrency or parameters.waves < 1:
        raise UsageError(
            "an envelope needs a concurrency and a wave", fix="For example --concurrency 1,8,64."
        )
    return by_concurrency(parameters, lambda _: parameters.waves)


def procedure(session: Session, parameters: Parameters) -> None:
    """Calibrate, canary, the ladder, canary."""
    session.ladder(plan(parameters))


def verdict(session: Session, parameters: Parameters) -> dict[str, Any]:
    """Valid when every rung is."""
    return session.verdict()
