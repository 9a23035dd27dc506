"""The few requests a bring-up sends itself, before any probe runs."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp

from k3repro.bringup._sanitise import hide


async def get(url: str, *, timeout_s: float = 5.0) -> tuple[int, str]:
    """Status and body of a GET; (0, why) when nothing answered."""
    try:
        timeout = aiohttp.ClientTimeout(total=timeout_s)
        async with aiohttp.ClientSession(timeout=timeout) as session, session.get(url) as answer:
            return answer.status, await answer.text()
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        return 0, str(error) or type(error).__name__


async def complete(url: str, model: str, *, tokens: int, prompt: str, timeout_s: float) -> str:
    """One completion; "" when it is well, else what is wrong with it."""
    return (await ask(url, model, tokens=tokens, prompt=prompt, timeout_s=timeout_s))[0]


async def ask(url: str, model: str, *, tokens: int, prompt: str, timeout_s: float) -> tuple[str, str]:
    """What is wrong with one completion ("" for nothing), and its text."""
    body = {"model": model, "prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True}
    try:
        timeout = aiohttp.ClientTimeout(total=timeout_s)
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.post(f"{url}/v1/completions", json=body) as answer,
        ):
            return _read(answer.status, await answer.text())
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        return f"no answer: {str(error) or type(error).__name__}", ""


def _read(status: int, text: str) -> tuple[str, str]:
    if status != 200:
        return f"HTTP {status}: {hide(text[:200])}", ""
    try:
        choice: Any = json.loads(text)["choices"][0]
        return ("" if choice["finish_reason"] else "no finish_reason"), str(choice.get("text", ""))
    except (ValueError, KeyError, IndexError, TypeError):
        return f"not a completion: {hide(text[:200])}", ""


async def canary(url: str, model: str, concurrency: int, *, timeout_s: float) -> list[str]:
    """So many completions at once; what is wrong with each ("" for well)."""
    prompts = [f"Canary {index} of {concurrency}: count to three." for index in range(concurrency)]
    calls = [complete(url, model, tokens=4, prompt=prompt, timeout_s=timeout_s) for prompt in prompts]
    return list(await asyncio.gather(*calls))
