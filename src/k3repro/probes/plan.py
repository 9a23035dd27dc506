"""Plans: the rungs of a ladder, what they will send, and the estimate printed before anything starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from k3repro.errors import InputError, UsageError
from k3repro.units import thousands
from k3repro.workload import OpenLoop, Workload


@dataclass(frozen=True, slots=True)
class Rung:
    """One step of a ladder: `requests` of one shape, at most `concurrency` in flight.

    `prompt_tokens` is the target of each prompt, `output_tokens` the cap (forced when `forced`), `timeout_s`
    the limit of one request. `measured` rungs count for the result; calibration and canary do not. With a
    `workload`, sizes and arrivals come from it (those two are then its means), and an open loop has no
    limit in flight.
    """

    name: str
    concurrency: int
    requests: int
    prompt_tokens: int
    output_tokens: int
    forced: bool = True
    timeout_s: float = 1800.0
    measured: bool = True
    stall_s: float = 300.0
    workload: Workload | None = None

    @property
    def level(self) -> str:
        """The step of the ladder that this wave belongs to: its name without the number of the wave."""
        return self.name.partition("#")[0]

    @property
    def longest(self) -> int:
        """Tokens of the longest request: prompt and reply."""
        return self.workload.longest if self.workload else self.prompt_tokens + self.output_tokens

    @property
    def open_loop(self) -> bool:
        """Whether requests come at a rate, whatever the server does."""
        return self.workload is not None and isinstance(self.workload.arrival, OpenLoop)

    def __post_init__(self) -> None:
        for field in ("concurrency", "requests", "prompt_tokens", "output_tokens"):
            if getattr(self, field) < 1:
                raise InputError(
                    f"{field} is {getattr(self, field)}, not at least 1", where=f"rung {self.name}"
                )


CANARY_TOKENS, CANARY_OUTPUT = 128, 8


def canary(when: str, forced: bool = True) -> list[Rung]:
    """The two waves that tell a healthy serve from a degraded one: concurrency 1, then 4."""
    return [
        Rung(f"canary-{when}-{c}", c, c, CANARY_TOKENS, CANARY_OUTPUT, forced, 300, measured=False)
        for c in (1, 4)
    ]


def warm_up(when: str, forced: bool = True) -> Rung:
    """Requests of the canary's shape before it: an engine may compile for minutes on a shape it never saw."""
    return Rung(f"warm-up-{when}", 4, 4, CANARY_TOKENS, CANARY_OUTPUT, forced, 900, measured=False)


CALIBRATION_WORDS = (200, 2000)
MORE_WORDS = (60, 90, 120, 180, 270, 400)
"""Words of further calibration prompts where nothing counts tokens beforehand: short prompts vary most."""

_ROOMY_TOKENS = 4 * CALIBRATION_WORDS[1]


def calibration_words(max_model_len: int | None = None) -> tuple[int, int]:
    """Words of the two calibration prompts; fewer on a serve whose context they might not fit."""
    if max_model_len is None or max_model_len >= _ROOMY_TOKENS:
        return CALIBRATION_WORDS
    most = max(20, max_model_len // 4)  # no tokenizer is expected to spend more than four tokens on a word
    return most // 10, most


def calibration(requests: int = 2) -> Rung:
    """Requests of one token that tell how many tokens a word costs on this server."""
    return Rung("calibration", 1, requests, CALIBRATION_WORDS[1], 1, timeout_s=300, measured=False)


def whole(rungs: Sequence[Rung], *, wall: bool = False) -> list[Rung]:
    """Everything a probe sends: calibration, canary, its rungs, canary; on the `wall` clock a warm-up too."""
    warm = [warm_up("before")] if wall else []
    return [calibration(), *warm, *canary("before"), *rungs, *canary("after")]


def require_room(rungs: Sequence[Rung], max_model_len: int | None, where: str) -> None:
    """Refuse a plan with a request longer than the serve takes; nothing is refused where it does not say.

    Raises:
        UsageError: which rung, its tokens, and what the serve takes.
    """
    longest = max(rungs, key=lambda rung: rung.longest, default=None)
    tokens = longest.longest if longest else 0
    if longest is not None and max_model_len is not None and tokens > max_model_len:
        raise UsageError(
            f"rung {longest.name} asks for {thousands(tokens)} tokens, the serve takes"
            f" {thousands(max_model_len)}",
            where=where, fix="Ask for shorter prompts or replies, or raise --max-model-len of the serve.",
        )  # fmt: skip


def estimate(rungs: Sequence[Rung]) -> dict[str, Any]:
    """What a plan sends, per rung and in all: requests, prompt tokens (targets), output tokens (caps).

    `resident_tokens` is concurrency x (prompt + output): what the KV pool must hold so that nothing queues.
    """
    rows = [_estimate(rung) for rung in whole(rungs)]
    total = {key: sum(row[key] for row in rows) for key in ("requests", "prompt_tokens", "output_tokens")}
    return {"rungs": rows, "total": total | {"resident_tokens": max(row["resident_tokens"] for row in rows)}}


def _estimate(rung: Rung) -> dict[str, Any]:
    size = rung.prompt_tokens + rung.output_tokens
    prompts = sum(CALIBRATION_WORDS) if rung.name == "calibration" else rung.requests * rung.prompt_tokens
    return {
        "rung": rung.name,
        "concurrency": rung.concurrency,
        "requests": rung.requests,
        "prompt_tokens": prompts,
        "output_tokens": rung.requests * rung.output_tokens,
        "resident_tokens": min(rung.concurrency, rung.requests) * size,
        "measured": rung.measured,
    }


LATER = {"absent": "at its default"}
"""Metadata of an option that came later: at its default it is left out, so that a run stays the same run."""


def as_parameters(parameters: Any) -> dict[str, Any]:
    """A frozen Parameters dataclass as plain data for the artifact."""
    absent = {
        field.name
        for field in fields(parameters)
        if field.metadata == LATER and getattr(parameters, field.name) == field.default
    }
    return {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in asdict(parameters).items()
        if key not in absent
    }
