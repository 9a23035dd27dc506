"""Why a held-out cell is far off, from what is printed beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["FAR", "reason"]

FAR = 0.1
_ORDER = "think times, the order of turns and what the caches held at the start are not printed"
_SLOWER = "slower than Table 4 has this concurrency at the same prompts"


def reason(cell: Mapping[str, Any]) -> str | None:
    """One clause, or None where the cell is near."""
    if cell["error"] is None or abs(cell["error"]) <= FAR:
        return None
    if cell["source"] == "Table 5":
        return _of_class(cell)
    if cell["source"] != "Table 7":
        return "carried over from the other platform by the ratio of the two C0"
    if cell["least_draw"] is None:
        return "one request or a handful, of which only the longest prompt and the mean cache hit are printed"
    inside = cell["least_draw"] <= cell["printed"] <= cell["most_draw"]
    return f"within the twin's own draws of the corpus; {_ORDER}" if inside else _ORDER


def _of_class(cell: Mapping[str, Any]) -> str:
    if cell["cell"] == "latency-floor":
        return "printed faster than C0 plus its tokens at k: the floor would have to shrink with the prompt"
    if cell["quantity"] == "in_tokens_per_s":
        return _SLOWER if cell["regime"] != "long context" else "prefill of long prompts is faster there"
    other = "more" if cell["implied_output"] > cell["asked_output"] else "fewer"
    return f"the row's own columns imply {other} output tokens a request than were asked for"
