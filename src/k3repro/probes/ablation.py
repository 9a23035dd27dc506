"""ablation: one restart of one side of an A/B comparison, over a few concurrencies.

`k3repro probe ablation --target A --against B --restarts 3` measures both sides interleaved, each restart
on a serve of its own, and gives the effect with its interval. One serve a side shows how that serve ran,
not
an effect.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from k3repro.client import REQUESTS_TABLE
from k3repro.errors import UsageError
from k3repro.probes._session import Session
from k3repro.probes.plan import Rung
from k3repro.probes.tables import CONSTRUCTION_TABLE, RUNGS_TABLE
from k3repro.store import Schema

NAME = "ablation"
PERFORMANCE = True
SCHEMA = Schema((REQUESTS_TABLE, RUNGS_TABLE, CONSTRUCTION_TABLE))


@dataclass(frozen=True, slots=True)
class Parameters:
    """Shape, concurrencies and waves of each; which side of the comparison and which restart of it this
    is.
    """

    isl: int = 1024
    osl: int = 256
    concurrency: tuple[int, ...] = (8, 64)
    waves: int = 2
    side: str = "a"
    restart: int = 0
    timeout_s: float = 1800.0


def plan(parameters: Parameters) -> list[Rung]:
    """Waves of each concurrency, taking turns, so that a drift of the serve does not favour one of them."""
    if not parameters.concurrency or parameters.waves < 1:
        raise UsageError("an ablation needs a concurrency and a wave", fix="For example --concurrency 8,64.")
    if parameters.side not in ("a", "b") or parameters.restart < 0:
        raise UsageError("a side is a or b, a restart counts from 0", fix="For example --side a --restart 0.")
    return [
        Rung(f"con={c}#{wave}", c, c, parameters.isl, parameters.osl, timeout_s=parameters.timeout_s)
        for wave in range(parameters.waves)
        for c in sorted(set(parameters.concurrency))
    ]


def procedure(session: Session, parameters: Parameters) -> None:
    """Calibrate, canary, the waves, canary."""
    session.ladder(plan(parameters))


def verdict(session: Session, parameters: Parameters) -> dict[str, Any]:
    """Valid when every rung is."""
    return session.verdict()
