"""What is sealed of a target, and what to run next: one line a step, each with its command."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from k3repro.store import Artifact, Store

__all__ = ["LEAST_THOUGHT", "Next", "after_gate", "runs_text", "what_next"]

LEAST_THOUGHT = 2048
"""Output tokens in which a model that thinks first answers a needle question."""

_ORDER = ("needle-gate", "latency", "envelope", "osl-sweep", "saturation", "agentic")
_WHY = {
    "needle-gate": "nothing is measured on a serve that mixes requests up",
    "latency": "TTFT, TPOT and E2E under load, with quantiles",
    "envelope": "how far the output rate grows with concurrency",
    "osl-sweep": "the wall law: fixed cost and cost per token",
    "saturation": "at how many users more of them bring nothing",
    "agentic": "sessions of many turns with think time and prefix reuse",
}


@dataclass(frozen=True, slots=True)
class Next:
    """A command and why."""

    command: str
    why: str

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {"command": self.command, "why": self.why}


def what_next(artifact: Artifact, store: Store, words: str) -> list[Next]:
    """At most three next steps after `artifact`, the likeliest first, and never the one just taken.

    `words`: the options that every command needs, ``--target http://router:30000 --model m`` for example.
    """
    found: list[Next] = []
    if not artifact.verdict.get("ok"):
        root = f" --artifacts {words.partition(' --artifacts ')[2]}" if " --artifacts " in words else ""
        found.append(
            Next(f"k3repro artifacts show {artifact.seal[:12]}{root}", "every reason, with its rung")
        )
    if artifact.name == "needle-gate" and not artifact.verdict.get("ok"):
        option, why = after_gate(artifact)
        return [Next(f"k3repro probe needle-gate {words} {option}", why), *found]
    serve = artifact.serve.get("id")  # one serve may go by two names: with its hardware said, and without
    done = {
        known.name
        for known in store.artifacts()
        if known.name in _WHY
        and (known.subject == artifact.subject or known.serve.get("id") == serve)
        and known.verdict.get("ok")
    }
    found += [
        Next(f"k3repro probe {name} {words}", _WHY[name])
        for name in _ORDER
        if name not in done and name != artifact.name
    ]
    if {"latency", "envelope"} <= done:
        plain = words.partition(" --artifacts ")[0]
        found.append(Next(f"k3repro run router {plain}", "six probes at once, and a site of this serve"))
    return found[:3]


def after_gate(gate: Artifact) -> tuple[str, str]:
    """What to add to a gate that did not pass, and why."""
    cap = int(gate.parameters["max_tokens"])
    if gate.verdict.get("outcomes", {}).get("capped"):
        why = "it thinks, or talks, before it answers: a longer reply lets it get there"
        return f"--max-tokens {max(LEAST_THOUGHT, 4 * cap)}", why
    return "--reuse 4", "race or stale state?"


def runs_text(artifact: Artifact, store: Store) -> str:
    """This run and the others of its probe on its target, newest first, with day and verdict; one a line.

    The newest valid one is marked: pages and notebooks choose it.
    """
    entries = store.state().seals
    known = sorted(
        store.artifacts(name=artifact.name, subject=artifact.subject),
        key=lambda run: str(entries[run.seal].body["at"]),
        reverse=True,
    )
    newest = next((run.seal for run in known if run.verdict.get("ok")), "")
    lines = []
    for run in known:
        state = "valid" if run.verdict.get("ok") else f"NOT valid: {(run.verdict.get('reasons') or ['?'])[0]}"
        marks = ", newest valid" * (run.seal == newest) + ", this run" * (run.seal == artifact.seal)
        day = str(entries[run.seal].body["at"])[:10] if run.clock == "wall" else "simulated"
        lines.append(f"{run.name} {run.seal[:12]}  {day}  {state}{marks}")
    return "\n".join(lines)
