"""niah-ladder: one needle a request up the context range: where recall stops (publication, Figure 6).

The needle lies at depth 0.5 of every rung; a sweep over depths at three contexts says whether place
matters. A rung counts only if the server counted the tokens the rung asked for. Times are close to first-
token times as long
as replies end by themselves inside the token cap, so that is recorded and told.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from k3repro.client import REQUESTS_TABLE, Request
from k3repro.errors import UsageError
from k3repro.probes._session import Session
from k3repro.probes.needle_gate import EXPERIMENTS, Haystack, check_form, explain
from k3repro.probes.needles import HIT, Asked, Needle, needles, preamble, score
from k3repro.probes.plan import LATER, Rung
from k3repro.probes.tables import Construction, RungRow
from k3repro.store import Col, Row, Schema
from k3repro.units import failure_rate_bound

NAME = "niah-ladder"
PERFORMANCE = False
EXAMPLES = ("--target twin:mi325x", "--target twin:mi325x --context 20K,100K --repeats 3")
HELP = {
    "depth": "Places of the needle in the ladder: 0 start, 1 end.",
    "sweep_context": "Contexts of the depth sweep.",
    "sweep_depth": "Places of the needle in the depth sweep.",
}
# Of the detection matrix: small enough for thousands of trials, with requests in flight together.
TRIAL = {"context": (1500, 2500), "sweep_context": (1500,), "repeats": 4}


class Recall(Row, table="recall", key=("request_id",)):
    """One row per needle of the ladder and of the depth sweep."""

    request_id: str
    rung: str | None
    part: Annotated[str | None, Col(doc="ladder or sweep")]
    context: Annotated[int | None, Col("tokens", "prompt and token cap together")]
    depth: Annotated[float | None, Col(doc="place in the haystack, 0 start to 1 end")]
    code: Annotated[str | None, Col(doc="the exact token expected")]
    outcome: Annotated[str | None, Col(doc="hit, miss, leak, foreign, capped, failed, echo")]
    eaten_by: Annotated[str | None, Col(doc="what ate the token cap of a capped reply; empty otherwise")]
    natural_stop: Annotated[bool | None, Col(doc="the reply ended by itself inside the cap")]
    prompt_tokens: Annotated[int | None, Col("tokens", "as the server counted")]
    ttft_s: Annotated[float | None, Col("s")]
    e2e_s: Annotated[float | None, Col("s")]
    reply: Annotated[str | None, Col(doc="what came back, cut at 200 characters")]


SCHEMA = Schema((REQUESTS_TABLE, RungRow.TABLE, Construction.TABLE, Recall.TABLE))


@dataclass(frozen=True, slots=True)
class Parameters:
    """Contexts of the ladder and its depth, contexts and depths of the sweep, needles per rung, token cap."""

    context: tuple[int, ...] = (20_000, 50_000, 100_000, 200_000, 300_000, 500_000, 700_000, 900_000)
    depth: tuple[float, ...] = (0.5,)
    sweep_context: tuple[int, ...] = (50_000, 100_000, 200_000)
    sweep_depth: tuple[float, ...] = (0.1, 0.5, 0.9)
    repeats: int = 1
    max_tokens: int = 64
    form: str = field(default="asked", metadata=LATER)
    experiment: str = ""
    timeout_s: float = 7200.0


def resolve(parameters: Parameters, target: str) -> Parameters:
    """Nothing to fill in; the twin understands questions only."""
    check_form(parameters.form, target)
    return parameters


@dataclass(frozen=True, slots=True)
class _Step:
    rung: Rung
    part: str
    context: int
    depth: float


def _steps(parameters: Parameters) -> list[_Step]:
    parts = (
        ("ladder", parameters.context, parameters.depth),
        ("sweep", parameters.sweep_context, parameters.sweep_depth),
    )
    return [
        _Step(_rung(f"{part}-{context}-d={depth:g}#{repeat}", context, parameters), part, context, depth)
        for part, contexts, depths in parts
        for context in sorted(set(contexts))
        for depth in depths
        for repeat in range(parameters.repeats)
    ]


def _rung(name: str, context: int, parameters: Parameters) -> Rung:
    # Half a percent below the rung: sizes are good to about a thousandth, the sum must fit.
    prompt = context - parameters.max_tokens - max(24, context // 200)
    return Rung(f"niah-{name}", 1, 1, prompt, parameters.max_tokens, False, parameters.timeout_s)


def plan(parameters: Parameters) -> list[Rung]:
    """One request per rung: the ladder from short to long, then the sweep."""
    if not parameters.context or not parameters.depth or parameters.repeats < 1:
        raise UsageError(
            "a ladder needs contexts, a depth and a repeat", fix="For example --context 20K,100K."
        )
    if min(parameters.context + parameters.sweep_context) < 2 * parameters.max_tokens + 100:
        raise UsageError(
            "a context is not longer than its reply", fix="Raise --context or lower --max-tokens."
        )
    if parameters.experiment not in EXPERIMENTS:
        raise UsageError(
            f"no experiment {parameters.experiment!r}", fix=f"Known: {', '.join(EXPERIMENTS[1:])}."
        )
    return [step.rung for step in _steps(parameters)]


def procedure(session: Session, parameters: Parameters) -> None:
    """Calibrate on prompts of this form, canary, ladder, sweep, canary."""
    steps = _steps(parameters)
    haystack = Haystack(parameters.experiment, parameters.form)
    hidden = needles(session.prompt_seed("niah"), len(steps) + 1)
    session.keep_text = True
    session.calibrate(lambda seed, words: haystack.prompt(seed, words, hidden[-1], 0.5), haystack.generator)
    session.canary("before")
    for step, needle in zip(steps, hidden, strict=False):
        _ask(session, step, needle, haystack)
    session.canary("after")


def _ask(session: Session, step: _Step, needle: Needle, haystack: Haystack) -> None:
    rung = step.rung
    seed = session.prompt_seed(rung.name)
    prompts = session.prompts(
        rung, {rung.name: lambda words: haystack.prompt(seed, words, needle, step.depth)}
    )
    request = Request(rung.name, prompts[rung.name], rung.output_tokens, ignore_eos=False)
    session.rung(rung, [request], extra=lambda rows: {"recall": [_row(step, needle, rows[0])]})


def _row(step: _Step, needle: Needle, row: Mapping[str, Any]) -> Recall:
    capped = row["finish_reason"] == "length"
    done = row["outcome"] == "completed"
    asked = Asked(
        row["request_id"],
        row["wave"],
        needle,
        row["text"] or "",
        done,
        capped,
        row["sent_ns"],
        row["done_ns"],
        row["completion_tokens"],
    )
    outcome = score([asked])[0].outcome
    first = row["first_token_ns"]
    return Recall(
        request_id=row["request_id"], rung=step.rung.name, part=step.part, context=step.context,
        depth=step.depth, code=needle.code, outcome=outcome,
        eaten_by=preamble(row["text"] or "", row["completion_tokens"]) if outcome == "capped" else "",
        natural_stop=done and row["finish_reason"] == "stop", prompt_tokens=row["prompt_tokens"],
        ttft_s=None if first is None else (first - row["sent_ns"]) / 1e9,
        e2e_s=(row["done_ns"] - row["sent_ns"]) / 1e9, reply=(row["text"] or "")[:200],
    )  # fmt: skip


def verdict(session: Session, parameters: Parameters) -> dict[str, Any]:
    """Ok when every needle came back and every rung is what it says; with the highest context up to which
    all did.
    """
    rows = session.run.rows("recall")
    bad = [row for row in rows if row["outcome"] != HIT]
    reasons = [f"{row['rung']}: {explain(row['outcome'], 1, row['eaten_by'])}" for row in bad]
    if parameters.experiment:
        reasons.append(f"experiment {parameters.experiment}: says nothing about recall as such")
    natural = sum(row["natural_stop"] for row in rows)
    ladder = [row for row in rows if row["part"] == "ladder"]
    failed = min((row["context"] for row in ladder if row["outcome"] != HIT), default=None)
    below = [row["context"] for row in ladder if failed is None or row["context"] < failed]
    hits = len(rows) - len(bad)
    cap = parameters.max_tokens
    stops = f"{natural} of {len(rows)} replies ended by themselves inside the cap of {cap} tokens"
    return session.verdict(reasons) | {
        "passed": hits, "total": len(rows), "failure_rate_bound": failure_rate_bound(hits, len(rows)),
        "recalled_to": max(below, default=None), "first_failure": failed, "natural_stops": natural,
        "stops": stops, "experiment": parameters.experiment,
    }  # fmt: skip
