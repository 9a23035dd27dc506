"""What a running serve says of itself: the serve record of an open target."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from k3repro.client import place_mark
from k3repro.serve import facts

__all__ = ["serve_facts", "serve_of", "vouch"]


def serve_facts(target: Any, **more: Any) -> dict[str, Any]:
    """The serve record of an open target, as it answers now; `more` makes this serve this one too."""
    paths = ("/version", "/v1/models", "/health", "/metrics")
    fetched = {path: target.run(lambda opened, path=path: opened.fetch(path)) for path in paths}
    answers = {path: answer.text if answer.status == 200 else None for path, answer in fetched.items()}
    evidence = target.serve["evidence"]
    if target.clock == "virtual":
        return facts(answers, target=target.subject, evidence=evidence, seed=target.seed, **more)
    # Who it is depends on where it is and what it says, not on what somebody calls it.
    place = place_mark(target.address.where)
    return facts(answers, evidence=evidence, place=place, **more) | {"target": target.subject}


def serve_of(artifact: Any) -> str:
    """Which bring-up a run talked to: the serve's id, and a digest of its launch record where there is one.

    Engines that one driver starts side by side may begin within one tick of the clock that the id rests on.
    """
    launch = artifact.serve.get("launch") or artifact.parameters.get("launch")
    if not launch:
        return str(artifact.serve["id"])
    text = json.dumps(launch, sort_keys=True, default=str)
    return f"{artifact.serve['id']}-{hashlib.sha256(text.encode()).hexdigest()[:6]}"


def vouch(target: Any, engines: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Let the open `engines` behind a router vouch for it, which shows little of itself.

    Their evidence is added to the target's; returns what they are, by name: id, version, configuration.
    """
    kept = ("id", "target", "engine", "models", "config", "started")
    evidence = target.serve["evidence"]
    for engine in engines.values():
        evidence += [item for item in engine.serve["evidence"] if item not in evidence]
    found = {name: serve_facts(engine) for name, engine in engines.items()}
    return {name: {key: entry[key] for key in kept if key in entry} for name, entry in found.items()}
