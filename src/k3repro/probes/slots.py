"""slots: one side of the slot intervention: output rate around the slot ceiling (publication, Table 4).

Run it on two serves that differ in MAX_NUM_SEQS alone: `k3repro probe slots --target A --against B`
measures both and compares them. If slots set the knee it moves with the setting; if the pool does, it
stays.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from k3repro.errors import UsageError
from k3repro.probes.ladder import SCHEMA as SCHEMA
from k3repro.probes.ladder import Steps, climbing
from k3repro.probes.plan import Rung
from k3repro.probes.setting import setting_of
from k3repro.probes.shapes import knee

NAME = "slots"
PERFORMANCE = True
EXAMPLES = ("--target twin:mi300x --against 'twin:mi300x?max_num_seqs=32'",)
# Of the detection matrix: small enough for thousands of trials, with requests in flight together.
TRIAL = {"isl": 1024, "osl": 32, "concurrency": (16, 32, 64)}


@dataclass(frozen=True, slots=True)
class Parameters(Steps):
    """Shape, ladder and waves per rung; what the serve was launched with (0: not known)."""

    isl: int = 1024
    osl: int = 256
    concurrency: tuple[int, ...] = (32, 64, 128)
    waves: int = 1
    platform: str = ""
    pool_bytes: int = 0
    max_num_seqs: int = 0


def resolve(parameters: Parameters, target: str) -> Parameters:
    """The twin says itself what it was launched with; of a URL only what was given is known."""
    found = setting_of(target, max_num_seqs=parameters.max_num_seqs, pool_bytes=parameters.pool_bytes)
    if found is None:
        return parameters
    return replace(parameters, pool_bytes=found.pool_bytes, max_num_seqs=found.max_num_seqs)


def plan(parameters: Parameters) -> list[Rung]:
    """One rung per concurrency and wave, smallest first."""
    if len(set(parameters.concurrency)) < 2 or parameters.waves < 1:
        raise UsageError(
            "slots need two concurrencies and a wave", fix="For example --concurrency 32,64,128."
        )
    return [
        Rung(
            f"con={c}#{wave}", c, c, parameters.isl, parameters.osl, not parameters.natural,
            parameters.timeout_s,
        )
        for c in sorted(set(parameters.concurrency))
        for wave in range(parameters.waves)
    ]  # fmt: skip


procedure, verdict = climbing(plan, found=lambda session: {"knee": knee(rates(session.run.rows("rungs")))})


def rates(rungs: list[dict[str, Any]]) -> list[tuple[int, float]]:
    """(concurrency, output tokens per second over all waves) of the valid measured rungs."""
    tokens: dict[int, int] = {}
    walls: dict[int, float] = {}
    for row in sorted(rungs, key=lambda row: row["position"]):
        if row["measured"] and row["valid"] and row["wall_s"]:
            tokens[row["concurrency"]] = tokens.get(row["concurrency"], 0) + row["completion_tokens"]
            walls[row["concurrency"]] = walls.get(row["concurrency"], 0.0) + row["wall_s"]
    return [(c, tokens[c] / walls[c]) for c in sorted(tokens)]
