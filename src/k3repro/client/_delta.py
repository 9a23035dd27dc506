"""What one choice of an answer says: the answer itself, reasoning before it, and calls of tools.

Servers name these fields differently; each text is taken once, whatever it is called.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

__all__ = ["ANSWER", "CHANNELS", "REASONING", "TOOLS", "Part", "parts_of"]

ANSWER, REASONING, TOOLS = "text", "reasoning", "tool_calls"
CHANNELS = (ANSWER, REASONING, TOOLS)
_REASONING_KEYS = ("reasoning_content", "reasoning", "thinking")


class Part(NamedTuple):
    """Generated text, where it belongs, and the JSON key it is the plain value of (None: built from more)."""

    channel: str
    text: str
    key: str | None


def parts_of(body: dict[str, Any]) -> list[Part]:
    """The generated texts of a delta, a message, or a completion choice; empty ones are left out."""
    found = [*_reasoning(body), *_answer(body), *_tools(body)]
    return [part for part in found if part.text]


def _reasoning(body: dict[str, Any]) -> Iterator[Part]:
    for key in _REASONING_KEYS:  # some servers repeat the same text under two names
        text = body.get(key)
        if isinstance(text, str) and text:
            yield Part(REASONING, text, key)
            return
    yield Part(REASONING, _joined(body.get("reasoning_details")), None)


def _answer(body: dict[str, Any]) -> Iterator[Part]:
    for key in ("text", "content", "refusal"):
        value = body.get(key)
        if isinstance(value, str):
            yield Part(ANSWER, value, key)
        elif isinstance(value, list):
            thoughts = [part for part in value if isinstance(part, dict) and part.get("type") == "thinking"]
            yield Part(REASONING, _joined(thoughts), None)
            yield Part(ANSWER, _joined([part for part in value if part not in thoughts]), None)
    audio = body.get("audio")
    if isinstance(audio, dict) and isinstance(audio.get("transcript"), str):
        yield Part(ANSWER, audio["transcript"], None)


def _tools(body: dict[str, Any]) -> Iterator[Part]:
    calls = body.get("tool_calls")
    calls = calls if isinstance(calls, list) else [{"function": body.get("function_call")}]
    for call in calls:
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            said = (function.get("name"), function.get("arguments"))
            yield Part(TOOLS, "".join(text for text in said if isinstance(text, str)), None)


def _joined(parts: Any) -> str:
    """The texts of content parts, one inside the other as some servers send them."""
    if isinstance(parts, str):
        return parts
    if isinstance(parts, dict):
        keys = ("text", "thinking", "refusal", "summary", "content")
        return next((found for key in keys if (found := _joined(parts.get(key)))), "")
    return "".join(_joined(part) for part in parts) if isinstance(parts, list) else ""
