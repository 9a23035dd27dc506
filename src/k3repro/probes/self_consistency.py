"""self-consistency: a serve must repeat itself token for token; for any model, even one with random weights.

Greedy answers at concurrency 1 are the reference. Repeats, slots that others have used, and a restart must
give the same tokens and log-probabilities; higher concurrency too where the engine is batch-invariant. A
routed serve is compared with an engine asked directly at the first differing token: bfloat16 has exact ties,
so token equality is no gate there, a wide top-2 margin at the parting is a finding. With both engines of a
pair at hand, the swap test and the byte counters of the transfer prove that state really crossed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from k3repro.client import REQUESTS_TABLE, Request, RequestRecord, open_target
from k3repro.errors import UsageError
from k3repro.probes._handoff import Counters, mirrored, read_counters, sending, tokenize, two_legs
from k3repro.probes._judgement import AnswerRow, Limits, Transferred, findings, judge_rows, numbers
from k3repro.probes._sequences import Answer, ask_wave, digest
from k3repro.probes._session import Session, plain_prompt
from k3repro.probes.plan import Rung
from k3repro.probes.serve_facts import vouch
from k3repro.probes.tables import Construction, RungRow
from k3repro.store import Rows, Schema

NAME = "self-consistency"
PERFORMANCE = False
EXAMPLES = (
    "--target http://127.0.0.1:8000",
    "--target http://router:30000 --direct http://engine:8000 --prompts 8 --concurrency 4,8",
    "--target http://router:30000 --prefill http://p:8000 --decode http://d:8000 --concurrency 4",
)
HELP = {
    "prompts": "Different prompts, each answered once per wave.",
    "batch": "Rule at higher concurrency: exact (batch-invariant engine) or near-tie.",
    "direct": "URL of an engine to ask without the router, with the same prompts.",
    "decode": "URL of its decode engine, whose transfer counters are read around every wave.",
    "state_bytes": "Bytes of recurrent state and convolution that one request transfers; 0: not known.",
    "block_bytes": "Bytes of one attention block that a request transfers; 0: not known.",
    "block_tokens": "Tokens of one attention block; 0: not known.",
    "max_margin": "Widest top-2 margin, in nats, at which a parting is a near tie.",
    "max_dlp": "Largest log-probability difference, in nats, that rounding explains.",
}
# Of the detection matrix: small enough for thousands of trials, with requests in flight together.
TRIAL = {"isl": 64, "osl": 16, "prompts": 4, "concurrency": (2, 4)}
_PATIENCE_S = 120.0  # an engine busy with a wave may take long to show its counters
SCHEMA = Schema((REQUESTS_TABLE, RungRow.TABLE, Construction.TABLE, AnswerRow.TABLE, Transferred.TABLE))


@dataclass(frozen=True, slots=True)
class Parameters:
    """Shape, concurrencies, what to compare with, the integers of a transfer, and the limits of a near tie.

    `batch`: ``exact`` where the engine is batch-invariant, else ``near-tie``. `direct`: an engine asked
    without the router. `prefill`, `decode`: the engines of a pair. One request transfers `state_bytes` +
    `block_bytes` x its blocks of `block_tokens` tokens (0: not known). A restart is two runs of this probe
    and `compare_serves`.
    """

    isl: int = 256
    osl: int = 32
    prompts: int = 8
    concurrency: tuple[int, ...] = (2, 4, 8)
    batch: str = "exact"
    direct: str = ""
    prefill: str = ""
    decode: str = ""
    state_bytes: int = 0
    block_bytes: int = 0
    block_tokens: int = 0
    max_margin: float = 0.125
    max_dlp: float = 0.12
    timeout_s: float = 600.0


def plan(parameters: Parameters) -> list[Rung]:
    """Reference, repeat, the concurrencies, a churn of other prompts through all slots, the reference again;
    then the engine asked directly and the swap, where they are given.
    """
    ladder, n = sorted(set(parameters.concurrency)), parameters.prompts
    if n < 2 or not ladder or ladder[0] < 1 or ladder[-1] > n:
        fix = "For example --prompts 8 --concurrency 2,4,8."
        raise UsageError("needs two prompts or more, and no concurrency above their number", fix=fix)
    if parameters.batch not in ("exact", "near-tie"):
        raise UsageError(f"batch is {parameters.batch!r}", fix="--batch exact or --batch near-tie")
    if bool(parameters.prefill) != bool(parameters.decode):
        raise UsageError("the swap test needs both engines of the pair", fix="Give --prefill and --decode.")
    waves = [("reference", 1), ("repeat", 1), *((f"concurrency={c}", c) for c in ladder)]
    waves += [("churn", ladder[-1]), ("reuse", 1)]
    waves += [("direct", 1)] if parameters.direct else []
    waves += [("swap-own", 1), ("swap", 1)] if parameters.prefill else []
    # Not `measured`: prompts may be a little longer or shorter, and whole answers say nothing about speed.
    size = (n, parameters.isl, parameters.osl)
    return [Rung(name, c, *size, timeout_s=parameters.timeout_s, measured=False) for name, c in waves]


def procedure(session: Session, parameters: Parameters) -> None:
    """Calibrate, canary, the waves, canary."""
    # No nonce here: a run after a restart has to send the very same prompts.
    session.calibrate(lambda _, words: plain_prompt(f"{session.seed}/calibration", words))
    session.canary("before")
    with ExitStack() as stack:
        others = {
            name: stack.enter_context(open_target(url, seed=session.seed, timeout_s=_PATIENCE_S))
            for name in ("direct", "prefill", "decode")
            if (url := getattr(parameters, name))
        }
        behind = vouch(session.target, {name: other for name, other in others.items() if name != "direct"})
        if behind:
            session.run.serve["behind"] = behind
        for rung in plan(parameters):
            _wave(session, rung, parameters, others)
    session.canary("after")


def _wave(session: Session, rung: Rung, parameters: Parameters, others: Mapping[str, Any]) -> None:
    answers: dict[str, Answer] = {}
    requests = _requests(session, rung)
    before: dict[str, Counters] = {}
    sender = _sender(session, rung, others, answers)

    def counted(*arguments: Any, **options: Any) -> list[RequestRecord]:
        if "decode" in others:
            before["decode"] = others["decode"].run(read_counters)
        return sender(*arguments, **options)

    def rows(records: list[dict[str, Any]]) -> Rows:
        done = [row["request_id"] for row in records if row["outcome"] == "completed"]
        prompts = {request.request_id: request.prompt for request in requests}
        said = [(name, digest(prompts[name]), answers[name]) for name in done if name in answers]
        reference = {
            row["prompt"]: row for row in session.run.rows("sequences") if row["kind"] == "reference"
        }
        found = judge_rows(rung, said, reference, _limits(parameters))
        return {"sequences": found, "transfers": _transfers(rung, records, parameters, others, before)}

    with sending(session, counted):
        session.rung(rung, requests, extra=rows)


def _sender(
    session: Session, rung: Rung, others: Mapping[str, Any], answers: dict[str, Answer]
) -> Callable[..., list[RequestRecord]]:
    keep = answers.__setitem__
    target = session.target
    if rung.name.startswith("swap"):
        return partial(_swap, target, others, rung.name == "swap", keep)
    asked = others["direct"] if rung.name == "direct" else target

    def send(requests: Sequence[Request], **options: Any) -> list[RequestRecord]:
        records = asked.run(ask_wave, requests, keep=keep, **options)
        return records if asked is target else _moved(records, target.now_ns() - asked.now_ns())

    return send


def _swap(
    target: Any, others: Mapping[str, Any], foreign: bool, keep: Any, requests: Sequence[Request],
    *, wave: str, timeout_s: float, on_record: Any = None, **_: Any,
) -> list[RequestRecord]:  # fmt: skip
    """`foreign`: decode is told Y with X's hand-off; else Y's own answer, which has to differ from X's."""
    prefill, decode = others["prefill"], others["decode"]
    records = []
    for request in requests:
        began = target.now_ns()
        tokens = prefill.run(tokenize, request.prompt)
        told = mirrored(tokens)
        sent = replace(request, prompt=tokens if foreign else told)
        record = two_legs(prefill, decode, sent, told, keep, timeout_s, wave)
        # Both legs are one request: it was sent when the first one was.
        records.append(replace(record, intended_ns=began, sent_ns=began, done_ns=target.now_ns()))
        if on_record is not None:
            on_record(records[-1])
    return records


def _moved(records: Sequence[RequestRecord], offset_ns: int) -> list[RequestRecord]:
    """Times of another target's clock as times of this run."""
    return [
        replace(record, **{n: getattr(record, n) + offset_ns for n in ("intended_ns", "sent_ns", "done_ns")})
        for record in records
    ]


def _requests(session: Session, rung: Rung) -> list[Request]:
    words = session.sizing.words(rung.prompt_tokens)
    group = "churn" if rung.name == "churn" else "prompt"
    return [
        Request(
            f"{rung.name}-{index:03d}",
            plain_prompt(f"{session.seed}/{group}-{index:03d}", words),
            rung.output_tokens,
        )
        for index in range(rung.requests)
    ]


def _transfers(
    rung: Rung, records: Sequence[Mapping[str, Any]], parameters: Parameters, others: Mapping[str, Any],
    before: Mapping[str, Counters],
) -> list[Transferred]:  # fmt: skip
    if "decode" not in others or rung.name == "direct":
        return []
    earlier = before["decode"]
    expected = None if earlier.transfers is None else earlier.transfers + rung.requests
    delta = others["decode"].run(read_counters, at_least=expected).since(earlier)
    return [
        Transferred(
            wave=rung.name, requests=rung.requests, transfers=delta.transfers, bytes=delta.bytes,
            failed=delta.failed, expected_bytes=_expected(records, parameters),
        )
    ]  # fmt: skip


def _expected(records: Sequence[Mapping[str, Any]], parameters: Parameters) -> int | None:
    """State per request is constant, attention grows by whole blocks."""
    if not (parameters.block_bytes and parameters.block_tokens):
        return None
    sizes = [int(row["prompt_tokens"]) for row in records if row["prompt_tokens"] is not None]
    if len(sizes) != len(records):
        return None
    # With recurrent state prefill stops a token early: decode computes the last one itself.
    crossed = [size - 1 if parameters.state_bytes else size for size in sizes]
    blocks = sum(-(-size // parameters.block_tokens) for size in crossed)
    return len(sizes) * parameters.state_bytes + blocks * parameters.block_bytes


def _limits(parameters: Parameters) -> Limits:
    return Limits(parameters.batch == "exact", parameters.max_margin, parameters.max_dlp)


def verdict(session: Session, parameters: Parameters) -> dict[str, Any]:
    """Ok when every comparison holds, the outputs can show a mix-up at all, and the counters add up."""
    sequences, transfers = session.run.rows("sequences"), session.run.rows("transfers")
    reasons = findings(sequences, transfers, paired=bool(parameters.prefill))
    return session.verdict(reasons) | {"checks": numbers(sequences)}
