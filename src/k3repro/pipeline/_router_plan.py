"""What `k3repro run router` would do to a serve: its probes, what they send, about how long that takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from k3repro.client import open_target
from k3repro.probes import LEAST_THOUGHT, Look, estimate_probe, look, parameters_of, probe_named
from k3repro.probes.plan import as_parameters, whole
from k3repro.probes.serve_facts import serve_facts
from k3repro.probes.setting import Costs, costs_of
from k3repro.store import Artifact, Store
from k3repro.units import order_free_sum

__all__ = ["FULL_MINUTES", "QUICK", "QUICK_MINUTES", "RouterPlan", "Step", "plan_router"]

QUICK: dict[str, dict[str, Any]] = {
    "needle-gate": {"context": 1000, "concurrency": (1, 8, 16)},
    "latency": {"isl": 1024, "osl": 32, "concurrency": (16,), "requests": 128},
    "envelope": {"isl": 1024, "osl": 32, "concurrency": (1, 4, 16, 64)},
    "osl-sweep": {"isl": 1024, "osl": (8, 32, 64), "repeats": 2},
    "saturation": {"shape": ("500/50",), "users": (1, 16, 64, 128)},
    "agentic": {"profile": "small", "concurrency": 4, "warmup_s": 5.0, "window_s": 30.0},
}
"""What is run unless `full` asks for the probes' own defaults. Latency comes right after the gate, without
which nothing is believed: a slow serve (the simulated MI325X) has its table within the first minute.
"""
QUICK_MINUTES, FULL_MINUTES = 5.0, 60.0
_LADDERS = ("latency", "envelope", "saturation", "osl-sweep")
_LADDER_SHARE = 0.08
"""Of the minutes given: a ladder starts no step later than that after its first."""


@dataclass(frozen=True, slots=True)
class Step:
    """One probe of the plan: parameters, what it sends at most, about how long, what is sealed of it."""

    probe: str
    parameters: dict[str, Any]
    requests: int
    prompt_tokens: int
    output_tokens: int
    minutes: float | None
    sealed: Artifact | None = None

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "probe": self.probe, "parameters": self.parameters, "requests": self.requests,
            "prompt_tokens": self.prompt_tokens, "output_tokens": self.output_tokens, "minutes": self.minutes,
            "sealed": self.sealed.seal if self.sealed else None,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class RouterPlan:
    """What a run would do to whom; nothing but four small requests was sent to find out."""

    target: str
    subject: str
    serve: str
    model: str
    steps: tuple[Step, ...]
    basis: str
    given: float
    thinks: bool = False

    @property
    def todo(self) -> list[Step]:
        """Steps that are not sealed yet."""
        return [step for step in self.steps if step.sealed is None]

    @property
    def minutes(self) -> float | None:
        """About how many minutes the work takes; None where nothing is known."""
        return _sum(self.todo)

    @property
    def first_table(self) -> float | None:
        """Minutes until the first table of latencies."""
        names = [step.probe for step in self.steps]
        return _sum([step for step in self.todo if names.index(step.probe) <= names.index("latency")])

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "target": self.target, "subject": self.subject, "serve": self.serve, "model": self.model,
            "minutes": self.minutes, "basis": self.basis, "given_minutes": self.given, "thinks": self.thinks,
            "steps": [step.as_dict() for step in self.steps],
        }  # fmt: skip


def _sum(steps: list[Step]) -> float | None:
    known = [step.minutes for step in steps if step.minutes is not None]
    return order_free_sum(known) if known else None


def plan_router(
    target: str,
    store: Store,
    *,
    full: bool = False,
    minutes: float | None = None,
    max_tokens: int | None = None,
    natural: bool = False,
    model: str | None = None,
    name_as: str = "",
    hardware: str = "",
) -> RouterPlan:
    """Ask the serve who it is and how fast (four small requests), and lay out what would run.

    `minutes`: what the whole may take. `max_tokens`: cap of a reply in the gate. `natural`: replies end where
    the model ends them, which leaves out the sweep of forced lengths.

    Raises:
        TargetError: nobody answers, or the serve refuses.
    """
    given = minutes or (FULL_MINUTES if full else QUICK_MINUTES)
    with open_target(target, model=model, name=name_as, hardware=hardware) as opened:
        subject, serve, served = opened.subject, serve_facts(opened)["id"], opened.model
        seen = look(opened) if opened.clock == "wall" else Look(costs_of(target, store))
        longest = opened.max_model_len
    cap = max_tokens or (LEAST_THOUGHT if seen.thinks else 0)
    steps = []
    for probe in QUICK:
        if natural and probe == "osl-sweep":
            continue
        values = dict(QUICK[probe]) if not full else {}
        if probe in _LADDERS:
            values["max_seconds"] = float(round(given * 60 * _LADDER_SHARE))
            values |= {"natural": True} if natural else {}
        elif probe == "needle-gate" and cap:
            values["max_tokens"] = min(cap, longest // 2) if longest else cap
        chosen = parameters_of(probe, _fitting(probe, values, longest))
        step = _step(probe, as_parameters(chosen), seen.costs)
        steps.append(replace(step, sealed=_sealed(step, store, subject, serve)))
    basis = seen.costs.source if seen.costs else seen.why
    return RouterPlan(target, subject, serve, served, tuple(steps), basis, given, seen.thinks)


def _sealed(step: Step, store: Store, subject: str, serve: str) -> Artifact | None:
    known = [
        artifact
        for artifact in store.artifacts(name=step.probe, subject=subject)
        if artifact.verdict.get("ok")
        and artifact.serve.get("id") == serve
        and _plain(artifact.parameters) == _plain(step.parameters)
    ]
    return known[-1] if known else None


def _plain(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in parameters.items() if key not in ("seed", "unsafe")}


def _fitting(probe: str, values: dict[str, Any], longest: int | None) -> dict[str, Any]:
    """Smaller prompts for a serve whose context is short."""
    if longest is None or longest >= 2500:
        return values
    if "context" in values:
        return values | {"context": max(200, longest // 2 - 200)}
    if "isl" in values:
        return values | {"isl": max(32, longest // 4), "osl": values["osl"]}
    return values | ({"max_context": longest} if probe == "agentic" else {})


def _step(probe: str, parameters: dict[str, Any], costs: Costs | None) -> Step:
    total = estimate_probe(probe, **parameters)["total"]
    minutes = _seconds(probe, parameters, costs) / 60 if costs is not None else None
    return Step(probe, parameters, total["requests"], total["prompt_tokens"], total["output_tokens"], minutes)


def _seconds(probe: str, parameters: dict[str, Any], costs: Costs) -> float:
    """About how long: what surrounds a ladder, and its steps as far as their time allows."""
    rungs = whole(probe_named(probe).plan(parameters_of(probe, parameters)), wall=True)
    around = order_free_sum(costs.seconds(rung) for rung in rungs if not rung.measured)
    steps = [costs.seconds(rung) for rung in rungs if rung.measured]
    if probe == "agentic":  # bounded by its window, whatever the corpus holds, and the replies then in flight
        last = max(costs.floor_s + costs.step_s * rung.output_tokens for rung in rungs if rung.measured)
        return around + float(parameters["warmup_s"] + parameters["window_s"]) + last
    allowed, spent = parameters.get("max_seconds") or float("inf"), 0.0
    for seconds in steps:
        if spent >= allowed:
            break
        spent += seconds
    return around + spent
