"""envelope: throughput and wall-clock as concurrency grows at one shape (publication, Figure 3, Table 4).

Each rung is one wave of as many requests as its concurrency, all sent at once; with --rate, the requests
that arrive at that rate within --duration-s.
"""

from __future__ import annotations

from dataclasses import dataclass

from k3repro.errors import UsageError
from k3repro.probes.ladder import SCHEMA as SCHEMA
from k3repro.probes.ladder import Load, by_load, climbing
from k3repro.probes.plan import Rung

NAME = "envelope"
PERFORMANCE = True
EXAMPLES = ("--target twin:mi325x --estimate", "--target http://router:30000 --concurrency 1,8,64")
# Of the detection matrix: small enough for thousands of trials, with requests in flight together.
TRIAL = {"isl": 1024, "osl": 32, "concurrency": (1, 8, 32)}


@dataclass(frozen=True, slots=True)
class Parameters(Load):
    """Shape of the ladder; tokens, requests in flight or a rate, and waves per rung."""

    concurrency: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
    waves: int = 1


def plan(parameters: Parameters) -> list[Rung]:
    """One rung per concurrency and wave, smallest first: a degraded serve shows before the costly rungs."""
    if not (parameters.concurrency or parameters.rate) or parameters.waves < 1:
        raise UsageError(
            "an envelope needs a concurrency and a wave", fix="For example --concurrency 1,8,64."
        )
    return by_load(parameters, lambda _: parameters.waves)


procedure, verdict = climbing(plan)
