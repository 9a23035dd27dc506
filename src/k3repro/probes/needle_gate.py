"""needle-gate: every request asks for its own needle; a reply with another one's code proves a mix-up.

The correctness gate of the publication (Challenge 3): 57 distinct needles at 50K context over concurrency
1, 8, 16 and 32. Nothing about performance is believed on a serve that has not passed it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any

from k3repro.client import REQUESTS_TABLE, Request, TwinAddress, parse_target
from k3repro.errors import UsageError
from k3repro.probes._session import Session
from k3repro.probes.needles import FORMS, HIT, MOST_NEEDLES, Asked, Needle, Score, needles, preamble, score
from k3repro.probes.plan import LATER, Rung
from k3repro.probes.prompts import GENERATOR, REPEATED, filler, insert, repeated, tag
from k3repro.probes.signature import signature
from k3repro.probes.tables import Construction, RungRow
from k3repro.store import Col, Row, Rows, Schema
from k3repro.units import failure_rate_bound, format_decimal, requests_for_rate, thousands

NAME = "needle-gate"
PERFORMANCE = False
EXAMPLES = (
    "--target twin:mi325x",
    "--target twin:mi325x --max-rate 1%",
    "--context 6K --concurrency 8 --reuse 4",
)
HELP = {
    "max_rate": "Failure rate the gate has to rule out at 95 % (1%); asks for as many needles as that takes.",
    "reuse": "Needles per place in flight; 4 separates a transport race from a recycled state.",
}
# Of the detection matrix: small enough for thousands of trials, with requests in flight together.
TRIAL = {"context": 1000}


class NeedleRow(Row, table="needles", key=("request_id",)):
    """One row per needle: what was hidden, what was asked, what came back."""

    request_id: str
    wave: Annotated[str | None, Col(doc="rung")]
    concurrency: Annotated[int | None, Col("requests")]
    needle_key: Annotated[str | None, Col(doc="what was asked for")]
    code: Annotated[str | None, Col(doc="the exact token expected")]
    depth: Annotated[float | None, Col(doc="place in the haystack, 0 start to 1 end")]
    reply: Annotated[str | None, Col(doc="what came back, cut at 200 characters")]
    outcome: Annotated[str | None, Col(doc="hit, miss, leak, foreign, capped, failed, echo")]
    eaten_by: Annotated[str | None, Col(doc="what ate the token cap of a capped reply; empty otherwise")]


class LeakRow(Row, table="leaks", key=("asker", "owner")):
    """Contamination matrix in long form: whose needle leaked where. No row, no leak."""

    asker: Annotated[str, Col(doc="request whose reply carried the code")]
    owner: Annotated[str, Col(doc="request the code belongs to")]
    code: str | None
    timing: Annotated[str | None, Col(doc="the owner was concurrent, finished or later")]


SCHEMA = Schema((REQUESTS_TABLE, RungRow.TABLE, Construction.TABLE, NeedleRow.TABLE, LeakRow.TABLE))
EXPERIMENTS = ("", "repetitive-filler")
DEPTHS = (0.5, 0.1, 0.9, 0.3, 0.7)


@dataclass(frozen=True, slots=True)
class Parameters:
    """Context in tokens, one rung per concurrency, the failure rate to rule out (0: as planned).

    `reuse` asks so many needles per place in flight, which separates a transport race from a recycled state.
    `form` is ``asked``, or ``primed`` for a small model that continues a text rather than answers a question.
    """

    context: int = 50_000
    concurrency: tuple[int, ...] = (1, 8, 16, 32)
    max_tokens: int = 64
    max_rate: float = 0.0
    reuse: int = 1
    form: str = field(default="asked", metadata=LATER)
    experiment: str = ""
    timeout_s: float = 1800.0


def resolve(parameters: Parameters, target: str) -> Parameters:
    """Nothing to fill in; the twin understands questions only.

    Raises:
        UsageError: a form that does not exist, or that this target cannot answer.
    """
    check_form(parameters.form, target)
    return parameters


def check_form(form: str, target: str) -> None:
    """Refuse a form that does not exist, or that this target cannot answer."""
    if form not in FORMS:
        raise UsageError(f"no form {form!r}", where="--form", fix=f"Known: {', '.join(FORMS)}.")
    if form != "asked" and target and isinstance(parse_target(target), TwinAddress):
        raise UsageError("the twin answers questions only", where="--form", fix="Leave it at asked.")


def plan(parameters: Parameters) -> list[Rung]:
    """One wave per concurrency; with `max_rate`, more waves at the highest until enough needles are asked."""
    ladder = list(parameters.concurrency)
    if not ladder:
        raise UsageError("a gate needs a concurrency", fix="For example --concurrency 1,8,16,32.")
    if parameters.reuse < 1:
        raise UsageError("reuse is at least 1", fix="For example --reuse 4.")
    if parameters.experiment not in EXPERIMENTS:
        raise UsageError(
            f"no experiment {parameters.experiment!r}", fix=f"Known: {', '.join(EXPERIMENTS[1:])}."
        )
    wanted = requests_for_rate(parameters.max_rate) if parameters.max_rate else 0
    if (most := max(wanted, sum(ladder) * parameters.reuse)) >= MOST_NEEDLES:
        raise UsageError(
            f"{thousands(most)} distinct needles do not exist",
            where=NAME, fix=f"There are {thousands(MOST_NEEDLES)}: raise --max-rate or ask fewer.",
        )  # fmt: skip
    missing = max(0, wanted - sum(ladder) * parameters.reuse)
    ladder += [min(max(ladder), missing - done) for done in range(0, missing, max(ladder))]
    return [
        Rung(
            f"gate-{index}-con={c}", c, c * parameters.reuse if index < len(parameters.concurrency) else c,
            parameters.context, parameters.max_tokens, False, parameters.timeout_s,
        )
        for index, c in enumerate(ladder)
    ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Haystack:
    """How the text around a needle is made and ends; the repetitive kind is a named experiment."""

    experiment: str = ""
    form: str = "asked"

    @property
    def generator(self) -> str:
        """What the construction table says of it."""
        return REPEATED if self.experiment else GENERATOR

    def prompt(self, seed: str, words: int, needle: Needle, depth: float) -> str:
        """`words` words with the needle at `depth`, then the question; the seed stands first."""
        text = repeated(words) if self.experiment else filler(seed, words)
        return f"{tag(seed)} {' '.join(insert(text, needle.sentence, depth))}\n\n{needle.ending(self.form)}"


def procedure(session: Session, parameters: Parameters) -> None:
    """Calibrate on prompts of the gate's own form, canary, the waves, canary."""
    rungs = plan(parameters)
    haystack = Haystack(parameters.experiment, parameters.form)
    hidden = needles(session.prompt_seed("needles"), sum(rung.requests for rung in rungs) + 1)
    session.keep_text = True
    session.calibrate(lambda seed, words: haystack.prompt(seed, words, hidden[-1], 0.5), haystack.generator)
    session.canary("before")
    pool = iter(hidden)
    for rung in rungs:
        _wave(session, rung, [next(pool) for _ in range(rung.requests)], haystack)
    session.canary("after")


def _wave(session: Session, rung: Rung, hidden: Sequence[Needle], haystack: Haystack) -> None:
    cap = rung.output_tokens
    ids = [f"{rung.name}-{index:03d}" for index in range(rung.requests)]
    by_id = dict(zip(ids, hidden, strict=True))
    depths = {name: DEPTHS[index % len(DEPTHS)] for index, name in enumerate(ids)}
    prompts = session.prompts(rung, {
        name: partial(_prompt, haystack, session.prompt_seed(name), needle, depths[name])
        for name, needle in by_id.items()
    })  # fmt: skip
    requests = [Request(name, prompt, cap, ignore_eos=False) for name, prompt in prompts.items()]

    def scored(rows: list[dict[str, Any]]) -> Rows:
        earlier = list(_asked(session))
        asked = [_ask(row, by_id[row["request_id"]]) for row in rows]
        scores = score([*earlier, *asked])[len(earlier) :]
        counted = {row["request_id"]: row["completion_tokens"] for row in rows}
        return _rows(rung, asked, scores, depths, counted)

    session.rung(rung, requests, extra=scored)


def _prompt(haystack: Haystack, seed: str, needle: Needle, depth: float, words: int) -> str:
    return haystack.prompt(seed, words, needle, depth)


def _asked(session: Session) -> Iterator[Asked]:
    requests = {row["request_id"]: row for row in session.run.rows("requests")}
    for row in session.run.rows("needles"):
        yield _ask(requests[row["request_id"]], Needle(row["needle_key"], row["code"]))


def _ask(row: Mapping[str, Any], needle: Needle) -> Asked:
    return Asked(
        row["request_id"], row["wave"], needle, row["text"] or "", row["outcome"] == "completed",
        row["finish_reason"] == "length", row["sent_ns"] or 0, row["done_ns"] or 0,
        row["completion_tokens"],
    )  # fmt: skip


def _rows(
    rung: Rung,
    asked: Sequence[Asked],
    scores: Sequence[Score],
    depths: Mapping[str, float],
    counted: Mapping[str, int | None],
) -> Rows:
    found = [
        NeedleRow(
            request_id=entry.request_id, wave=rung.name, concurrency=rung.concurrency,
            needle_key=entry.needle.key, code=entry.needle.code, depth=depths[entry.request_id],
            reply=entry.text[:200], outcome=result.outcome,
            eaten_by=preamble(entry.text, counted[entry.request_id]) if result.outcome == "capped" else "",
        )
        for entry, result in zip(asked, scores, strict=True)
    ]  # fmt: skip
    leaks = [
        LeakRow(asker=leak.asker, owner=leak.owner, code=leak.code, timing=leak.timing)
        for result in scores
        for leak in result.leaks
    ]
    return {"needles": found, "leaks": leaks}


def power(passed: int, total: int) -> str:
    """What a count of passes rules out: ``57 of 57: failure rate below 5.1 % at 95 %``."""
    bound = format_decimal(100 * failure_rate_bound(passed, total), 1)
    return f"{passed} of {total}: failure rate below {bound} % at 95 %"


def verdict(session: Session, parameters: Parameters) -> dict[str, Any]:
    """Passed when every needle is a hit and every rung valid; with power, counts and a signature."""
    rows = session.run.rows("needles")
    counts = Counter(row["outcome"] for row in rows)
    passed, total = counts[HIT], len(rows)
    eaten = ", ".join(sorted({row["eaten_by"] for row in rows} - {""}))
    reasons = [explain(outcome, count, eaten) for outcome, count in sorted(counts.items()) if outcome != HIT]
    if parameters.experiment:
        reasons.append(f"experiment {parameters.experiment}: not a gate")
    bound = failure_rate_bound(passed, total)
    # At the planned size no failure gives exactly the asked rate; the margin is the last rounded digit.
    if parameters.max_rate and bound > parameters.max_rate * (1 + 1e-9):
        reasons.append(f"a failure rate of {parameters.max_rate:.2%} is not ruled out: bound {bound:.2%}")
    return session.verdict(reasons) | {
        "passed": passed,
        "total": total,
        "failure_rate_bound": bound,
        "power": power(passed, total),
        "signature": _signature(session),
        "outcomes": dict(sorted(counts.items())),
    }


def _signature(session: Session) -> str:
    asked = list(_asked(session))
    concurrency = {row["request_id"]: row["concurrency"] for row in session.run.rows("needles")}
    return signature(asked, score(asked), concurrency)


def explain(outcome: str, count: int, eaten_by: str = "") -> str:
    """One reason in words: how many needles ended like this."""
    what = {
        "miss": "answered without the needle",
        "leak": "answered with another request's needle (table leaks says whose)",
        "foreign": "answered with a code that nobody in this run asked for",
        "capped": f"cut by the token cap before any code ({eaten_by or 'no code yet'}): raise --max-tokens, "
        "this is not a miss",
        "failed": "did not complete",
        "echo": "answered with more text than its tokens can hold: a prompt sent back recalls nothing",
    }[outcome]
    return f"{count} {what}"
