"""capacity-grid: context against concurrency, beside what two laws predict (publication, Table 2).

A request that does not fit queues; it does not fail. So the observed limit is how many are resident while
others wait, which only the engine's own metrics tell; without them it stays unknown. A wave that does not
end
inside its stated time is let drain, and is told apart: over capacity (tokens keep coming, requests wait)
or a stall
(no token comes while requests are in flight, the two MI325X cells of the publication).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from k3repro.capacity import discriminating_rungs
from k3repro.client import REQUESTS_TABLE
from k3repro.errors import UsageError
from k3repro.probes._session import Session
from k3repro.probes.cells import NOT_RUN, CellSeen, EngineLook, judge_cell, look_rows
from k3repro.probes.plan import LATER, Rung, canary
from k3repro.probes.setting import Setting, costs_of, setting_of
from k3repro.probes.tables import Construction, RungRow
from k3repro.probes.wave_monitor import Observer, Seen
from k3repro.store import Rows, Schema
from k3repro.units import parse_tokens

NAME = "capacity-grid"
PERFORMANCE = True
EXAMPLES = (
    "--target twin:mi300x --context 200K,300K --concurrency 16,32",
    "--target http://router:30000 --platform mi300x --metrics http://decode:20005",
    "--target twin:mi300x --discriminate --context 300K",
)
HELP = {
    "discriminate": "Only the cells where the two capacity laws disagree; replies outlast their prefill.",
    "cells": "Cells instead of every context at every concurrency: 200K@4,200K@6.",
    "metrics": "URL of the decode engine's metrics, where the router has none.",
    "poll_s": "Seconds between two looks at the metrics.",
    "drain_s": "How long a late wave may drain before it is killed.",
}
# Of the detection matrix: small enough for thousands of trials, with requests in flight together.
TRIAL = {
    "context": (6000,),
    "concurrency": (16,),
    "osl": 8,
    "poll_s": 100.0,
    "timeout_s": 400.0,
    "drain_s": 400.0,
}
SCHEMA = Schema((REQUESTS_TABLE, RungRow.TABLE, Construction.TABLE, CellSeen.TABLE, EngineLook.TABLE))
USUAL_REPLY = 64
_RESULTS = frozenset(
    {"completion", "concurrency"}
)  # that a cell does not complete is what the grid looks for


@dataclass(frozen=True, slots=True)
class Parameters:
    """Contexts and concurrencies, reply length, the wave's time and the drain after it; what was launched.

    `osl` 0 is 64 tokens, or, with `discriminate`, the shortest reply that is still decoding when the last
    request of its wave has been prefilled: only then are all of them resident at once. `discriminate`
    replaces the concurrencies by those at which the two laws disagree; `cells` names every cell instead,
    ``200K@4``. `metrics` names the
    decode engine's URL where the router has no metrics; several looks are taken every `poll_s` seconds.
    """

    context: tuple[int, ...] = (50_000, 100_000, 200_000, 300_000, 512_000)
    concurrency: tuple[int, ...] = (16, 32, 64)
    osl: int = 0
    discriminate: bool = False
    platform: str = ""
    pool_bytes: int = 0
    max_num_seqs: int = 0
    cells: tuple[str, ...] = field(default=(), metadata=LATER)
    metrics: str = ""
    poll_s: float = 20.0
    timeout_s: float = 7200.0
    drain_s: float = 7200.0


def resolve(parameters: Parameters, target: str) -> Parameters:
    """Fill in pool and slots of the target, and the discriminating concurrencies if they were asked for."""
    found = setting_of(
        target, platform=parameters.platform, pool_bytes=parameters.pool_bytes,
        max_num_seqs=parameters.max_num_seqs,
    )  # fmt: skip
    if found is not None:
        parameters = replace(
            parameters, platform=found.platform, pool_bytes=found.pool_bytes, max_num_seqs=found.max_num_seqs
        )
    return replace(parameters, osl=parameters.osl or _reply(parameters, found, target))


def _reply(parameters: Parameters, setting: Setting | None, target: str) -> int:
    """Tokens of a reply that nobody chose."""
    if not parameters.discriminate or setting is None:
        return USUAL_REPLY
    cells = _cells(parameters, setting)
    costs = costs_of(target, platform=parameters.platform)
    found = costs.outlasting(max(context * c for context, c in cells)) if costs else None
    if found is None:
        fix = "Give --osl: with a reply that ends before the last prefill the laws cannot be told apart."
        raise UsageError("how long prefill takes here is not known", where="--discriminate", fix=fix)
    return max(USUAL_REPLY, found)


def _setting(parameters: Parameters) -> Setting | None:
    return setting_of(
        "", platform=parameters.platform, pool_bytes=parameters.pool_bytes,
        max_num_seqs=parameters.max_num_seqs,
    )  # fmt: skip


def _cell_of(text: str) -> tuple[int, int]:
    context, _, count = text.partition("@")
    if not count.strip().isdigit():
        raise UsageError(f"{text!r} is not a cell", where="--cells", fix="Write it like 200K@4.")
    return parse_tokens(context), int(count)


def _cells(parameters: Parameters, setting: Setting | None) -> list[tuple[int, int]]:
    if parameters.cells:
        return sorted(set(map(_cell_of, parameters.cells)))
    if not parameters.discriminate:
        return [
            (context, c)
            for context in sorted(set(parameters.context))
            for c in sorted(set(parameters.concurrency))
        ]
    if setting is None:
        raise UsageError("the laws need a pool to disagree about", fix="Give --platform mi300x or mi325x.")
    found = discriminating_rungs(
        setting.model,
        setting.engine,
        setting.pool_bytes,
        parameters.context,
        max_num_seqs=setting.max_num_seqs,
    )
    cells = [(rung.context, rung.high) for rung in found if rung.reachable]
    if not cells:
        raise UsageError(
            "the laws agree, or slots bind, at all these contexts", fix="Ask for longer contexts."
        )
    return cells


def _rungs(parameters: Parameters, setting: Setting | None) -> list[tuple[int, Rung]]:
    osl = parameters.osl or USUAL_REPLY
    cells = _cells(parameters, setting)
    if min((context for context, _ in cells), default=0) <= 2 * osl:
        raise UsageError(
            "a grid needs contexts longer than two replies, and concurrencies", fix="--context 200K"
        )
    longest = parameters.timeout_s + parameters.drain_s
    return [
        (context, Rung(f"grid-{context}-con={c}", c, c, context - osl, osl,
                       timeout_s=longest, stall_s=longest))
        for context, c in cells
    ]  # fmt: skip


def plan(parameters: Parameters) -> list[Rung]:
    """One wave a cell, short contexts and few requests first."""
    return [rung for _, rung in _rungs(parameters, _setting(parameters))]


def procedure(session: Session, parameters: Parameters) -> None:
    """Calibrate, canary, the cells; a cell that had to be killed is followed by a canary, which may end
    the grid.
    """
    setting = _setting(parameters)
    session.calibrate()
    session.canary("before")
    alive = True
    for context, rung in _rungs(parameters, setting):
        if alive:
            alive = _cell(session, parameters, setting, context, rung)
    session.canary("after")


def _cell(
    session: Session, parameters: Parameters, setting: Setting | None, context: int, rung: Rung
) -> bool:
    observer = Observer(parameters.poll_s, parameters.metrics)

    def extra(rows: list[dict[str, Any]]) -> Rows:
        seen: list[Seen] = observer.seen
        cell = judge_cell(rung, context, rows, seen, setting, parameters.timeout_s)
        return {"cells": [cell], "looks": look_rows(rung, rows, seen)}

    rows = session.rung(rung, session.requests(rung), extra=extra, observer=observer, allow=_RESULTS)
    if all(row["outcome"] not in ("timeout", "stalled") for row in rows):
        return True
    return all(session.check(step) for step in canary(f"after-{rung.name}"))


def verdict(session: Session, parameters: Parameters) -> dict[str, Any]:
    """Valid when every rung that ran is; with how many cells were served, and what was not run."""
    cells = session.run.rows("cells")
    planned = len(_rungs(parameters, _setting(parameters)))
    reasons = []
    if len(cells) < planned:
        reasons.append(f"{planned - len(cells)} cells {NOT_RUN}")
    counts: dict[str, int] = {}
    for row in cells:
        counts[row["verdict"]] = counts.get(row["verdict"], 0) + 1
    return session.verdict(reasons) | {
        "cells": dict(sorted(counts.items())),
        "timeout_s": parameters.timeout_s,
    }
