"""The events of the Responses API, read as the chunks of a chat: one reader judges both."""

from __future__ import annotations

from typing import Any

__all__ = ["as_chunk"]

_DELTAS = {
    "response.output_text.delta": "content",
    "response.refusal.delta": "refusal",
    "response.reasoning_text.delta": "reasoning",
    "response.reasoning_summary_text.delta": "reasoning",
    "response.output_audio_transcript.delta": "content",
}
_ENDS = {"max_output_tokens": "length", "content_filter": "content_filter"}


def as_chunk(event: dict[str, Any]) -> dict[str, Any] | None:
    """The chat chunk that says the same; None where the event is none of the Responses API.

    Events without generated text or an end (created, in progress, item added) become an empty document.
    """
    kind = event.get("type")
    if not isinstance(kind, str) or not kind.startswith("response."):
        return None
    if kind in _DELTAS:
        return _choice({_DELTAS[kind]: event.get("delta")}, None)
    if kind == "response.function_call_arguments.delta":
        return _choice({"tool_calls": [{"function": {"arguments": event.get("delta")}}]}, None)
    response = event.get("response")
    response = response if isinstance(response, dict) else {}
    if kind == "response.failed":
        return {"error": response.get("error") or "the response failed"}
    if kind not in ("response.completed", "response.incomplete"):
        return {}
    details = response.get("incomplete_details")
    why = details.get("reason") if isinstance(details, dict) else None
    return _choice({}, _ENDS.get(str(why), "stop")) | {"usage": _usage(response.get("usage"))}


def _choice(delta: dict[str, Any], finish: str | None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def _usage(usage: Any) -> dict[str, Any]:
    known = usage if isinstance(usage, dict) else {}
    return {
        "prompt_tokens": known.get("input_tokens"),
        "completion_tokens": known.get("output_tokens"),
        "prompt_tokens_details": known.get("input_tokens_details"),
    }
