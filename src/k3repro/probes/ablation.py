"""ablation: one restart of one side of an A/B comparison, over a few concurrencies.

`k3repro probe ablation --target A --against B --restarts 3` measures both sides interleaved, each restart
on a serve of its own, and gives the effect with its interval. One serve a side shows how that serve ran, not
an effect.
"""

from __future__ import annotations

from dataclasses import dataclass

from k3repro.errors import UsageError
from k3repro.probes.ladder import SCHEMA as SCHEMA
from k3repro.probes.ladder import Steps, climbing
from k3repro.probes.plan import Rung

NAME = "ablation"
PERFORMANCE = True
EXAMPLES = ("--target twin:mi300x --against 'twin:mi300x?graph=none' --restarts 3",)
HELP = {
    "side": "Which side of an ablation this is; set by --against.",
    "restart": "Which restart of its side this is; set by --restarts.",
}
# Of the detection matrix: small enough for thousands of trials, with requests in flight together.
TRIAL = {"isl": 1024, "osl": 32, "concurrency": (8, 32), "waves": 1}


@dataclass(frozen=True, slots=True)
class Parameters(Steps):
    """Shape, concurrencies and waves of each; which side of the comparison and which restart this is."""

    isl: int = 1024
    osl: int = 256
    concurrency: tuple[int, ...] = (8, 64)
    waves: int = 2
    side: str = "a"
    restart: int = 0


def plan(parameters: Parameters) -> list[Rung]:
    """Waves of each concurrency, taking turns, so that a drift of the serve does not favour one of them."""
    if not parameters.concurrency or parameters.waves < 1:
        raise UsageError("an ablation needs a concurrency and a wave", fix="For example --concurrency 8,64.")
    if parameters.side not in ("a", "b") or parameters.restart < 0:
        raise UsageError("a side is a or b, a restart counts from 0", fix="For example --side a --restart 0.")
    return [
        Rung(
            f"con={c}#{wave}", c, c, parameters.isl, parameters.osl, not parameters.natural,
            parameters.timeout_s,
        )
        for wave in range(parameters.waves)
        for c in sorted(set(parameters.concurrency))
    ]  # fmt: skip


procedure, verdict = climbing(plan)
