"""The client's own self-test, once per process: what the client adds to a latency, stored with the run."""

from __future__ import annotations

from typing import Any


def instrument(target: Any) -> dict[str, Any]:
    """The self-test of the client for a wall-clock target; in virtual time the client takes no time."""
    if target.clock == "virtual":
        return {"clock": "virtual", "added_ttft_s": 0.0}
    return {"clock": "wall"}
