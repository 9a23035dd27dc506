"""hand-off: what one request moves from prefill to decode, as the decode engine's connector counts it.

Two legs by hand, one request at a time, so that every byte belongs to one prompt. The target is the decode
engine; `prefill` names the other one. Speed is no result here: where both engines share a machine, the time
of a transfer says nothing about a fabric.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from k3repro.client import REQUESTS_TABLE, Request, RequestRecord, open_target
from k3repro.errors import UsageError
from k3repro.probes._handoff import Counters, read_counters, sending, tokenize, two_legs
from k3repro.probes._sequences import Answer
from k3repro.probes._session import Session, plain_prompt
from k3repro.probes.plan import Rung
from k3repro.probes.serve_facts import vouch
from k3repro.probes.tables import Construction, RungRow
from k3repro.store import Col, Row, Rows, Schema

NAME = "hand-off"
PERFORMANCE = False
EXAMPLES = ("--target http://decode:8000 --prefill http://prefill:8000 --isl 1K,64K",)


class CountedTransfer(Row, table="transfers", key=("rung",)):
    """One row per request: the connector's counters before and after."""

    rung: str
    prompt_tokens: Annotated[int | None, Col("tokens", "as the engine counted them")]
    transfers: int | None
    bytes: Annotated[int | None, Col("bytes", "of the one request, on one rank")]
    descriptors: Annotated[int | None, Col(doc="pieces the connector moved; NULL where it does not say")]
    failed: int | None


SCHEMA = Schema((REQUESTS_TABLE, RungRow.TABLE, Construction.TABLE, CountedTransfer.TABLE))
_PATIENCE_S = 600.0


@dataclass(frozen=True, slots=True)
class Parameters:
    """The prefill engine's URL, prompt lengths in tokens, repeats of each, reply length."""

    prefill: str = ""
    isl: tuple[int, ...] = (1024, 8192, 64_000)
    repeats: int = 1
    osl: int = 8
    timeout_s: float = 600.0


def resolve(parameters: Parameters, target: str) -> Parameters:
    """Nothing to fill in; a run needs the other end.

    Raises:
        UsageError: no prefill engine.
    """
    if target and not parameters.prefill:
        raise UsageError("a hand-off has two ends", fix="Give the prefill engine's URL: --prefill URL.")
    return parameters


def plan(parameters: Parameters) -> list[Rung]:
    """One request a rung, short prompts first."""
    return [
        Rung(f"isl={isl}#{repeat}", 1, 1, isl, parameters.osl, timeout_s=parameters.timeout_s, measured=False)
        for isl in sorted(set(parameters.isl))
        for repeat in range(parameters.repeats)
    ]


def procedure(session: Session, parameters: Parameters) -> None:
    """Calibrate and canary on the decode engine alone, then the hand-offs."""
    session.calibrate()
    session.canary("before")
    with open_target(parameters.prefill, timeout_s=_PATIENCE_S) as prefill:
        session.run.serve["behind"] = vouch(session.target, {"prefill": prefill})
        for rung in plan(parameters):
            _hand_over(session, rung, prefill)


def _hand_over(session: Session, rung: Rung, prefill: Any) -> None:
    target = session.target
    name = f"{rung.name}-0000"
    words = session.sizing.words(rung.prompt_tokens)
    tokens = prefill.run(tokenize, plain_prompt(session.prompt_seed(name), words))
    # A word more or less would move the prompt over a block's edge, which is what some lengths are for.
    tokens = (tokens + tokens[-1:] * rung.prompt_tokens)[: rung.prompt_tokens]
    request = Request(name, tokens, rung.output_tokens)
    before: Counters = target.run(read_counters)
    said: dict[str, Answer] = {}

    def send(_: Any, *, wave: str, timeout_s: float, on_record: Any, **__: Any) -> list[RequestRecord]:
        record = two_legs(prefill, target, request, tokens, said.__setitem__, timeout_s, wave)
        on_record(record)
        return [record]

    def rows(records: list[dict[str, Any]]) -> Rows:
        expected = None if before.transfers is None else before.transfers + 1
        delta = target.run(read_counters, at_least=expected).since(before)
        counted = records[0]["prompt_tokens"] if records else None
        return {"transfers": [CountedTransfer(
            rung=rung.name, prompt_tokens=counted, transfers=delta.transfers, bytes=delta.bytes,
            descriptors=delta.descriptors, failed=delta.failed,
        )]}  # fmt: skip

    with sending(session, send):
        session.rung(rung, [request], extra=rows)


def verdict(session: Session, parameters: Parameters) -> dict[str, Any]:
    """Valid when every request crossed once and nothing failed."""
    rows = session.run.rows("transfers")
    reasons = [
        f"{row['rung']}: {row['transfers']} transfers counted, not 1" for row in rows if row["transfers"] != 1
    ]
    reasons += [f"{row['rung']}: {row['failed']} transfers failed" for row in rows if row["failed"]]
    return session.verdict(reasons)
