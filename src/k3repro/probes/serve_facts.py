"""What a running serve says of itself: the serve record of an open target."""

from __future__ import annotations

from typing import Any

from k3repro.serve import facts

__all__ = ["serve_facts"]


def serve_facts(target: Any) -> dict[str, Any]:
    """The serve record of an open target, as it answers now."""
    paths = ("/version", "/v1/models", "/health", "/metrics")
    fetched = {path: target.run(lambda opened, path=path: opened.fetch(path)) for path in paths}
    answers = {path: answer.text if answer.status == 200 else None for path, answer in fetched.items()}
    known = {"seed": target.seed} if target.clock == "virtual" else {}
    return facts(answers, target=target.subject, evidence=target.serve["evidence"], **known)
