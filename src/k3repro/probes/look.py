"""A first look at a serve, four small requests: what a reply costs, and whether it thinks beforehand."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

from k3repro.client import Outcome, Request, RequestRecord, advice, run_wave
from k3repro.errors import TargetError
from k3repro.probes._session import plain_prompt
from k3repro.probes.setting import Costs

__all__ = ["LOOK", "Look", "look"]

LOOK = "four small requests just sent"
_ASKED = "Count from one to a hundred."
_LONG_WORDS = 1000
_FEW, _MANY = 4, 20


@dataclass(frozen=True, slots=True)
class Look:
    """`costs` is None where a request did not end, `why` says how; `thinks`: reasoning before the answer."""

    costs: Costs | None
    thinks: bool = False
    why: str = ""


def look(target: Any) -> Look:
    """Ask an open target four things: the first of a kind may compile, so the second counts.

    Raises:
        TargetError: it refuses; with status, cause and option.
    """
    asked = (
        (_ASKED, _FEW),
        (_ASKED, _FEW),
        (_ASKED, _MANY),
        (plain_prompt(secrets.token_hex(8), _LONG_WORDS), _FEW),
    )
    records: list[RequestRecord] = []
    for number, (prompt, tokens) in enumerate(asked):
        request = Request(f"look-{number}", prompt, tokens, ignore_eos=False)
        (record,) = target.run(run_wave, [request], concurrency=1, timeout_s=300)
        if record.outcome is Outcome.FAILED_HTTP and not (
            record.http_status == 400 and number == len(asked) - 1
        ):
            raise TargetError(str(record.error), where=target.subject, fix=advice(record.http_status))
        records.append(record)
    if (lost := next((r for r in records[:3] if r.e2e_s is None), None)) is not None:
        return Look(None, why=f"a small request did not end: {lost.error or lost.outcome}")
    return Look(_costs(*records[1:]), any(_thinks(record) for record in records))


def _thinks(record: RequestRecord) -> bool:
    """Reasoning that the server tells apart, hides, or leaves in the text."""
    hidden = bool(record.completion_tokens) and not record.text.strip()
    return bool(record.reasoning) or hidden or record.text.lstrip().startswith("<think")


def _costs(few: RequestRecord, many: RequestRecord, long: RequestRecord) -> Costs:
    """Seconds of a wave and of a token from two replies, of a prompt token from a longer prompt."""
    short, wide = few.e2e_s or 0.0, many.e2e_s or 0.0
    more = (many.completion_tokens or _MANY) - (few.completion_tokens or _FEW)
    per_token = max(0.0, (wide - short) / more) if more > 0 else 0.0
    floor = max(0.0, short - (few.completion_tokens or _FEW) * per_token)
    further = (long.prompt_tokens or 0) - (few.prompt_tokens or 0)
    known = long.e2e_s is not None and further > 0
    prefill = max(0.0, ((long.e2e_s or 0.0) - short) / further) if known else 0.0
    return Costs(floor, per_token, 0.0, 0.0, prefill, 0, 0, not known, LOOK)
