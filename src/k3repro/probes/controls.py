"""needle-controls: one needle asked in prompts that differ in one thing each, at concurrency one.

A repeated haystack and a chat template are what no probe sends, because both manufacture misses; asked on
purpose, beside a varied haystack and a plain completion, they tell a sensitive model or a talkative template.
"""

from __future__ import annotations

from k3repro.client import Request, run_wave
from k3repro.probes._session import Session
from k3repro.probes.needles import CODE, Needle, needles
from k3repro.probes.prompts import filler, insert

NAME = "needle-controls"
ASKED = 12
WORDS = 240
CAP = 24
_SENTENCE = "The grey fox sleeps under the old bridge near the mill."


def reasons(session: Session) -> list[str]:
    """Which of the three forms loses needles that the plain one finds."""
    plain = _found(session, "varied", chat=False)
    if plain < ASKED:
        return [f"{ASKED - plain} of {ASKED} needles are missed in a varied haystack, asked one at a time"]
    found = []
    repeated = _found(session, "repeated", chat=False)
    if repeated < ASKED:
        found.append(f"{ASKED - repeated} of {ASKED} needles are lost in a haystack that repeats itself")
    chat = _found(session, "varied", chat=True)
    if chat < ASKED:
        found.append(f"{ASKED - chat} of {ASKED} chat answers have no code within {CAP} tokens: a preamble?")
    return found


def _found(session: Session, hay: str, *, chat: bool) -> int:
    hidden = needles(session.prompt_seed(f"controls/{hay}/{chat}"), ASKED)
    requests = []
    for index, needle in enumerate(hidden):
        text = _prompt(session.prompt_seed(f"{hay}-{index}"), hay, needle)
        prompt = [{"role": "user", "content": text}] if chat else text
        name = f"{hay}-{'chat' if chat else 'plain'}-{index}"
        requests.append(Request(name, prompt, CAP, ignore_eos=False, chat=chat))
    records = session.target.run(run_wave, requests, concurrency=1, timeout_s=600)
    return sum(
        needle.code in CODE.findall(record.text) for needle, record in zip(hidden, records, strict=True)
    )


def _prompt(seed: str, hay: str, needle: Needle) -> str:
    repeats = WORDS // len(_SENTENCE.split())
    text = filler(seed, WORDS) if hay == "varied" else [_SENTENCE] * repeats
    return f"[{seed}] {' '.join(insert(text, needle.sentence, 0.5))}\n\n{needle.question}"
