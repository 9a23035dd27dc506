"""latency: time to first token and per output token as concurrency grows (publication, Table 3).

Bursts like those of the envelope, repeated until enough requests stand behind a quantile: 100 a concurrency
carry the median and p90; a p99 takes 500. With --rate the load is open: requests arrive whatever the server
does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from k3repro.errors import UsageError
from k3repro.probes.crosscheck import event_reasons
from k3repro.probes.ladder import SCHEMA as SCHEMA
from k3repro.probes.ladder import Load, by_load, climbing
from k3repro.probes.plan import Rung

NAME = "latency"
PERFORMANCE = True
EXAMPLES = (
    "--target http://router:30000 --slo ttft=2s,tpot=50ms",
    "--target twin:mi325x --p99 --estimate",
    "--target twin:mi325x --rate 2,4,8 --duration-s 30 --isl lognormal:1000,8000",
    "--target twin:mi325x --rate 4 --arrival burst --dataset sharegpt.json",
)
HELP = {
    "p99": "Five hundred requests per concurrency, which a p99 takes; --estimate says what that costs.",
}
# Of the detection matrix: small enough for thousands of trials, with requests in flight together.
TRIAL = {"isl": 1024, "osl": 24, "concurrency": (8, 32), "requests": 32}
P99_REQUESTS = 500  # units.stats: n (1 - q) of at least five


@dataclass(frozen=True, slots=True)
class Parameters(Load):
    """Shape of the requests, requests in flight or a rate, and at least how many requests per concurrency."""

    concurrency: tuple[int, ...] = (4, 8, 16, 32, 64, 128)
    requests: int = 100
    p99: bool = False


def plan(parameters: Parameters) -> list[Rung]:
    """Waves of one concurrency each, as many as `requests` takes."""
    none = not parameters.rate and (not parameters.concurrency or min(parameters.concurrency) < 1)
    if none or parameters.requests < 1:
        raise UsageError(
            "a latency ladder needs concurrencies and requests", fix="For example --concurrency 4,64."
        )
    requests = max(parameters.requests, P99_REQUESTS) if parameters.p99 else parameters.requests
    return by_load(parameters, lambda c: math.ceil(requests / c))


# Times per token are the result, so events have to be tokens.
procedure, verdict = climbing(plan, reasons=lambda session: event_reasons(session.run.rows("requests")))
