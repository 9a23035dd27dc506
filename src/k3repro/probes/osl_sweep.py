"""osl-sweep: wall-clock of one request as its output grows: data of the wall law (publication, Figure 2 A).

Concurrency 1, one input length, forced output lengths, several repeats of each in another order every time,
so that a drift of the serve does not pass for a slope.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from k3repro.errors import UsageError
from k3repro.probes.ladder import SCHEMA as SCHEMA
from k3repro.probes.ladder import Steps, climbing
from k3repro.probes.plan import Rung

NAME = "osl-sweep"
PERFORMANCE = True
EXAMPLES = ("--target twin:mi325x", "--osl 16,32,64,128,256 --repeats 3")
# Of the detection matrix: small enough for thousands of trials, with requests in flight together.
TRIAL = {"isl": 1024, "osl": (16, 64), "repeats": 4}


@dataclass(frozen=True, slots=True)
class Parameters(Steps):
    """Shape of the sweep; tokens and repeats."""

    isl: int = 1024
    osl: tuple[int, ...] = (16, 32, 64, 128, 256)
    repeats: int = 3


def plan(parameters: Parameters) -> list[Rung]:
    """One request per rung, `repeats` rounds over the output lengths, each round shuffled by its number."""
    if len(set(parameters.osl)) < 2 or parameters.repeats < 1:
        raise UsageError(
            "a sweep needs two output lengths and one repeat", fix="For example --osl 16,32,64 --repeats 3."
        )
    if parameters.natural:
        raise UsageError("a sweep forces its output lengths", where="--natural", fix="Use latency instead.")
    rungs = []
    for repeat in range(parameters.repeats):
        lengths = sorted(set(parameters.osl))
        random.Random(repeat).shuffle(lengths)
        rungs += [
            Rung(f"osl={osl}#{repeat}", 1, 1, parameters.isl, osl, timeout_s=parameters.timeout_s)
            for osl in lengths
        ]
    return rungs


procedure, verdict = climbing(plan)
