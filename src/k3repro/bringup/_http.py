"""The few requests a bring-up sends itself, before any probe runs: the client's own, outside any target."""

from __future__ import annotations

from k3repro.bringup._sanitise import hide
from k3repro.client import Outcome, Request, RequestRecord, fetch_url, wave_at


async def get(url: str, *, timeout_s: float = 5.0) -> tuple[int, str]:
    """Status and body of a GET; (0, why) when nothing answered."""
    answer = await fetch_url(url, timeout_s=timeout_s)
    if answer.status is None:
        return 0, answer.problem or "no answer"
    return answer.status, answer.body.decode("utf-8", "replace")


async def complete(url: str, model: str, *, tokens: int, prompt: str, timeout_s: float) -> str:
    """One completion; "" when it is well, else what is wrong with it."""
    return (await ask(url, model, tokens=tokens, prompt=prompt, timeout_s=timeout_s))[0]


async def ask(url: str, model: str, *, tokens: int, prompt: str, timeout_s: float) -> tuple[str, str]:
    """What is wrong with one completion ("" for nothing), and its text."""
    (record,) = await _wave(url, model, [prompt], tokens, timeout_s)
    return _wrong(record), record.text


async def canary(url: str, model: str, concurrency: int, *, timeout_s: float) -> list[str]:
    """So many completions at once; what is wrong with each ("" for well)."""
    prompts = [f"Canary {index} of {concurrency}: count to three." for index in range(concurrency)]
    return [_wrong(record) for record in await _wave(url, model, prompts, 4, timeout_s)]


async def _wave(
    url: str, model: str, prompts: list[str], tokens: int, timeout_s: float
) -> list[RequestRecord]:
    requests = [Request(f"canary-{index}", prompt, tokens) for index, prompt in enumerate(prompts)]
    return await wave_at(
        url, model, requests, concurrency=len(requests), timeout_s=timeout_s, stall_s=timeout_s
    )


def _wrong(record: RequestRecord) -> str:
    """What is wrong with an answer: its outcome and what was said; "" for nothing."""
    if record.outcome is Outcome.COMPLETED:
        return ""
    return f"{record.outcome}: {hide((record.error or 'no reason given')[:200])}"
