"""needle-controls: one needle asked in prompts that differ in one thing each, at concurrency one.

A repeated haystack and a chat template are what no other probe sends, because both manufacture misses; asked
on purpose, beside a varied haystack and a plain completion, they tell a sensitive model or a talkative
template from a broken serve.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from k3repro.client import REQUESTS_TABLE, Request
from k3repro.errors import UsageError
from k3repro.probes._session import Session
from k3repro.probes.needle_gate import Haystack
from k3repro.probes.needles import CODE, Needle, echoed, needles
from k3repro.probes.plan import Rung
from k3repro.probes.tables import Construction, RungRow
from k3repro.store import Col, Row, Rows, Schema

NAME = "needle-controls"
PERFORMANCE = False
EXAMPLES = ("--target twin:mi325x", "--target 'twin:mi325x?defect=preamble' --context 1K")
# Of the detection matrix: small enough for thousands of trials, with requests in flight together.
TRIAL = {"context": 500}


class Control(Row, table="controls", key=("request_id",)):
    """One row per needle."""

    request_id: str
    form: Annotated[str | None, Col(doc="varied, repeated (haystack), chat (varied, through the template)")]
    code: str | None
    found: Annotated[bool | None, Col(doc="whether the reply holds the code")]
    reply: str | None


SCHEMA = Schema((REQUESTS_TABLE, RungRow.TABLE, Construction.TABLE, Control.TABLE))
_FORMS = {"varied": Haystack(), "repeated": Haystack("repetitive-filler"), "chat": Haystack()}


@dataclass(frozen=True, slots=True)
class Parameters:
    """Context in tokens, needles per form, the cap that a preamble would eat."""

    context: int = 2000
    requests: int = 12
    max_tokens: int = 24
    timeout_s: float = 1800.0


def plan(parameters: Parameters) -> list[Rung]:
    """One rung a form, one request at a time."""
    if parameters.context < 2 * parameters.max_tokens + 100:
        raise UsageError(
            "a context is not longer than its reply", fix="Raise --context or lower --max-tokens."
        )
    prompt = parameters.context - parameters.max_tokens
    return [
        Rung(f"controls-{form}", 1, parameters.requests, prompt, parameters.max_tokens, False,
             parameters.timeout_s)
        for form in _FORMS
    ]  # fmt: skip


def procedure(session: Session, parameters: Parameters) -> None:
    """Calibrate on the varied form, canary, the three forms, canary."""
    hidden = needles(session.prompt_seed("controls"), len(_FORMS) * parameters.requests + 1)
    varied = _FORMS["varied"]
    session.keep_text = True
    session.calibrate(lambda seed, words: varied.prompt(seed, words, hidden[-1], 0.5), varied.generator)
    session.canary("before")
    for number, (form, rung) in enumerate(zip(_FORMS, plan(parameters), strict=True)):
        mine = hidden[number * rung.requests : (number + 1) * rung.requests]
        # Sizes are those of the varied form: a template or a refrain costs other tokens, which says nothing.
        requests, extra = _requests(session, rung, form, mine), partial(_extra, form, mine)
        session.rung(rung, requests, extra, allow=frozenset({"prompts"}))
    session.canary("after")


def _requests(session: Session, rung: Rung, form: str, hidden: Sequence[Needle]) -> list[Request]:
    names = [f"{rung.name}-{index:04d}" for index in range(len(hidden))]
    texts = session.prompts(rung, {
        name: partial(_prompt, form, session.prompt_seed(name), needle)
        for name, needle in zip(names, hidden, strict=True)
    })  # fmt: skip
    chat = form == "chat"
    return [
        Request(
            name, [{"role": "user", "content": text}] if chat else text, rung.output_tokens, ignore_eos=False,
            chat=chat,
        )
        for name, text in texts.items()
    ]  # fmt: skip


def _prompt(form: str, seed: str, needle: Needle, words: int) -> str:
    return _FORMS[form].prompt(seed, words, needle, 0.5)


def _extra(form: str, hidden: Sequence[Needle], rows: Sequence[dict[str, Any]]) -> Rows:
    by_id = sorted(rows, key=lambda row: row["request_id"])
    return {
        "controls": [
            Control(
                request_id=row["request_id"], form=form, code=needle.code,
                found=_found(needle, row), reply=(row["text"] or "")[:200],
            )
            for needle, row in zip(hidden, by_id, strict=True)
        ]
    }  # fmt: skip


def _found(needle: Needle, row: dict[str, Any]) -> bool:
    text = row["text"] or ""
    return needle.code in CODE.findall(text) and not echoed(text, row["completion_tokens"])


def verdict(session: Session, parameters: Parameters) -> dict[str, Any]:
    """Ok when every form finds every needle; else which form loses needles that the varied one finds."""
    rows = session.run.rows("controls")
    lost = {form: sum(not row["found"] for row in rows if row["form"] == form) for form in _FORMS}
    return session.verdict(list(_reasons(lost, parameters))) | {"lost": lost}


def _reasons(lost: dict[str, int], parameters: Parameters) -> list[str]:
    asked = parameters.requests
    if lost["varied"]:
        return [f"{lost['varied']} of {asked} needles are missed in a varied haystack, asked one at a time"]
    found = []
    if lost["repeated"]:
        found.append(f"{lost['repeated']} of {asked} needles are lost in a haystack that repeats itself")
    if lost["chat"]:
        cap = parameters.max_tokens
        found.append(f"{lost['chat']} of {asked} chat answers have no code within {cap} tokens: a preamble?")
    return found
