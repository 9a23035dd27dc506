"""What a self-consistency run compares, by which rule, and what its numbers add up to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from k3repro.errors import InputError
from k3repro.probes._sequences import Answer, Parting, part
from k3repro.probes.plan import Rung
from k3repro.store import Artifact, Col, Row, Rows, Schema, derivation


class AnswerRow(Row, table="sequences", key=("request_id",)):
    """One row per answer: its tokens, and where it parts from the reference of its prompt."""

    request_id: str
    wave: Annotated[str | None, Col(doc="rung")]
    kind: Annotated[
        str | None, Col(doc="reference, repeat, concurrency, churn, reuse, direct, swap-own, swap")
    ]
    prompt: Annotated[
        int | None, Col(doc="number of the prompt; equal numbers are equal prompts, churn apart")
    ]
    prompt_sha256: str | None
    tokens: Annotated[list[str] | None, Col(doc="ids as text; characters where the engine gives no tokens")]
    logprobs: Annotated[list[float] | None, Col("nats", "of each token; NULL where not reported")]
    margins: Annotated[
        list[float] | None, Col("nats", "top-1 minus top-2 at each token; NULL where not reported")
    ]
    cached_tokens: Annotated[int | None, Col("tokens", "of the prompt, from a prefix cache")]
    first_difference: Annotated[
        int | None, Col(doc="index of the first token unlike the reference; NULL: none")
    ] = None
    margin: Annotated[float | None, Col("nats", "larger top-2 margin there; NULL: none, or not reported")] = (
        None
    )
    dlp: Annotated[float | None, Col("nats", "largest log-probability difference before it")] = None
    ok: Annotated[bool | None, Col(doc="whether the rule of its kind holds; NULL: nothing to hold")] = None
    why: Annotated[str | None, Col(doc="why not")] = None


class Transferred(Row, table="transfers", key=("wave",)):
    """One row per wave through a pair: integers of the transfer counters."""

    wave: str
    requests: Annotated[int | None, Col("requests", "sent in this wave")]
    transfers: Annotated[int | None, Col(doc="that the decode engine counted meanwhile")]
    bytes: Annotated[int | None, Col("bytes", "that the decode engine counted meanwhile")]
    failed: int | None
    expected_bytes: Annotated[int | None, Col("bytes", "state per request and whole blocks; NULL: not known")]


class Restart(Row, table="restart", key=("prompt",)):
    """References of two serves, compared prompt by prompt."""

    prompt: int
    serve: Annotated[str | None, Col(doc="before")]
    other_serve: Annotated[str | None, Col(doc="after")]
    first_difference: Annotated[int | None, Col(doc="NULL: none")]
    margin: Annotated[float | None, Col("nats")]
    dlp: Annotated[float | None, Col("nats")]
    ok: bool | None


# Waves at concurrency 1 through the same path: the batch is the same, so not even a last bit may move.
_IDENTICAL = ("repeat", "reuse", "swap")
# Engines compute log-probabilities in float32 at best; what is smaller than this came from printing doubles.
PRINTED_NATS = 1e-9


@dataclass(frozen=True, slots=True)
class Limits:
    """Whether batches are invariant; the widest margin and difference that rounding explains, in nats."""

    batch_exact: bool = True
    max_margin: float = 0.125
    max_dlp: float = 0.12


def kind_of(rung: str) -> str:
    """The kind of check a rung belongs to."""
    return rung.partition("=")[0]


def answer_of(row: Mapping[str, Any]) -> Answer:
    """The answer in a row of `sequences`."""
    return Answer(tuple(row["tokens"]), tuple(row["logprobs"] or ()), tuple(row["margins"] or ()))


def judge_rows(
    rung: Rung,
    said: Sequence[tuple[str, str, Answer]],
    reference: Mapping[int, Mapping[str, Any]],
    limits: Limits,
) -> list[AnswerRow]:
    """Rows of `sequences` for the answers (request id, prompt digest, answer) of one rung."""
    kind = kind_of(rung.name)
    rows = []
    for request_id, sha, answer in said:
        prompt = int(request_id.rpartition("-")[2])
        known = [margin for margin in answer.margins if margin is not None]
        known = known if len(known) == len(answer.margins) else []
        alone = kind in ("reference", "churn")
        rows.append(AnswerRow(
            request_id=request_id, wave=rung.name, kind=kind, prompt=prompt, prompt_sha256=sha,
            tokens=list(answer.tokens), logprobs=list(answer.logprobs) or None,
            margins=known or None, cached_tokens=answer.cached_tokens,
            **({} if alone else _judged(kind, answer, reference.get(prompt), limits)),
        ))  # fmt: skip
    return rows


def _judged(kind: str, answer: Answer, reference: Mapping[str, Any] | None, limits: Limits) -> dict[str, Any]:
    if reference is None:
        return {"ok": False, "why": "its reference did not complete"}
    found = part(answer_of(reference), answer)
    why = rule(kind, found, limits)
    return {
        "first_difference": found.first, "margin": found.margin, "dlp": found.dlp,
        "ok": why is None, "why": why,
    }  # fmt: skip


def rule(kind: str, found: Parting, limits: Limits) -> str | None:
    """Why a parting breaks the rule of its kind; None when it holds."""
    if kind == "swap-own":
        return (
            None
            if found.first is not None
            else "the other prompt gives the same answer: the swap shows nothing"
        )
    if kind in _IDENTICAL and found.first is None and (found.dlp or 0.0) > PRINTED_NATS:
        return f"same tokens, but log-probabilities moved by {found.dlp:.3g}"
    exact = kind in _IDENTICAL or (kind == "concurrency" and limits.batch_exact)
    if exact and found.first is not None:
        return f"other tokens from {found.first} on"
    if found.near_tie(limits.max_margin, limits.max_dlp):
        return None
    if found.first is not None and found.margin is None:
        return f"other tokens from {found.first} on, and no log-probabilities to judge that by"
    return (
        f"no near tie: margin {_shown(found.margin)}, log-probabilities moved by {_shown(found.dlp)} before"
    )


def _shown(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.3g}"


def numbers(sequences: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Per wave: answers, how many differ, largest difference and margin, how many break their rule."""
    found: dict[str, dict[str, Any]] = {}
    for row in sequences:
        entry = found.setdefault(
            row["wave"], {"answers": 0, "different": 0, "broken": 0, "max_dlp": None, "max_margin": None}
        )
        entry["answers"] += 1
        entry["different"] += row["first_difference"] is not None
        entry["broken"] += row["ok"] is False
        for name, column in (("max_dlp", "dlp"), ("max_margin", "margin")):
            if row[column] is not None:
                entry[name] = max(entry[name] or 0.0, row[column])
    return found


def findings(
    sequences: Sequence[Mapping[str, Any]], transfers: Sequence[Mapping[str, Any]], *, paired: bool
) -> list[str]:
    """Why a run is not ok, the blindness of the instrument included."""
    reasons = []
    for wave, entry in numbers(sequences).items():
        if entry["broken"]:
            first = next(row for row in sequences if row["wave"] == wave and row["ok"] is False)
            example = f"prompt {first['prompt']}: {first['why']}"
            reasons.append(f"{wave}: {entry['broken']} of {entry['answers']} break the rule ({example})")
    reference = [tuple(row["tokens"]) for row in sequences if row["kind"] == "reference"]
    if len(set(reference)) < len(reference) or len(reference) < 2:
        reasons.append(
            f"blind: {len(reference)} prompts, {len(set(reference))} different answers: no mix-up would show"
        )
    cached = sum(row["cached_tokens"] or 0 for row in sequences if row["kind"] in ("reference", "swap"))
    if paired and cached:
        reasons.append(f"{cached} prompt tokens came from a prefix cache, so they did not have to cross")
    return reasons + _transferred(transfers)


def _transferred(transfers: Sequence[Mapping[str, Any]]) -> list[str]:
    reasons = []
    same: dict[str, Any] = {row["wave"]: row["bytes"] for row in transfers}
    for row in transfers:
        where, count = row["wave"], row["transfers"]
        if count is None:
            reasons.append(f"{where}: the decode engine reports no transfer counters")
        elif count != row["requests"] or not row["bytes"]:
            reasons.append(
                f"{where}: {count} transfers and {row['bytes']} bytes for {row['requests']} requests"
            )
        elif row["expected_bytes"] not in (None, row["bytes"]):
            reasons.append(f"{where}: {row['bytes']} bytes crossed, {row['expected_bytes']} expected")
        elif where in ("repeat", "reuse", "swap") and row["bytes"] != same.get("reference"):
            reasons.append(
                f"{where}: {row['bytes']} bytes, {same.get('reference')} for the same prompts before"
            )
        if row["failed"]:
            reasons.append(f"{where}: {row['failed']} failed transfers")
    return reasons


@derivation(name="self-consistency-restart", schema=Schema((Restart.TABLE,)))
def compare_serves(inputs: Sequence[Artifact], *, max_margin: float = 0.0, max_dlp: float = 0.0) -> Rows:
    """References of two self-consistency runs, one before and one after a restart. Zero limits: bit for bit.

    Raises:
        InputError: not two runs of one probe on two serves, or their prompts differ.
    """
    if len(inputs) != 2 or {artifact.name for artifact in inputs} != {"self-consistency"}:
        raise InputError("two self-consistency runs are needed", fix="One before the restart, one after.")
    serves = [str(artifact.serve.get("id")) for artifact in inputs]
    if serves[0] == serves[1]:
        raise InputError(f"both runs saw {serves[0]}", fix="Restart the serve, run the probe again.")
    before, after = (_references(artifact) for artifact in inputs)
    if {k: row["prompt_sha256"] for k, row in before.items()} != {
        k: r["prompt_sha256"] for k, r in after.items()
    }:
        raise InputError(
            "the two runs sent other prompts", fix="Same seed, prompts, --isl and model in both."
        )
    rows = []
    for prompt, row in sorted(before.items()):
        found = part(answer_of(row), answer_of(after[prompt]))
        same = found.first is None and (found.dlp or 0.0) <= PRINTED_NATS
        ok = same or (max_margin > 0 and found.near_tie(max_margin, max_dlp))
        rows.append(Restart(
            prompt=prompt, serve=serves[0], other_serve=serves[1], first_difference=found.first,
            margin=found.margin, dlp=found.dlp, ok=ok,
        ))  # fmt: skip
    return {"restart": rows}


def _references(artifact: Artifact) -> dict[int, dict[str, Any]]:
    return {row["prompt"]: row for row in artifact.rows("sequences") if row["kind"] == "reference"}
