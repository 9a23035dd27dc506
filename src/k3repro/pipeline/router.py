"""`k3repro run router --target URL`: one serve, the whole set of probes, and a site of that serve alone.

What is sealed of this serve with the same parameters is kept; an interrupted run resumes where it was.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from k3repro.client import Request, open_target, run_wave
from k3repro.errors import GateFailed, Interrupted, InvalidRun, K3Error, MissingExtra
from k3repro.probes import Progress, estimate_probe, fit_wall_law, parameters_of, probe_named, run_probe
from k3repro.probes.plan import as_parameters, whole
from k3repro.probes.serve_facts import serve_facts
from k3repro.probes.setting import Costs, costs_of
from k3repro.store import Artifact, Store
from k3repro.units import order_free_sum

__all__ = ["QUICK", "RouterPlan", "Step", "build_serve_site", "plan_router", "run_router"]

QUICK: dict[str, dict[str, Any]] = {
    "needle-gate": {"context": 2000, "concurrency": (1, 8, 16)},
    "latency": {"isl": 1024, "osl": 64, "concurrency": (8, 32), "requests": 64},
    "envelope": {"isl": 1024, "osl": 64, "concurrency": (1, 4, 16, 64)},
    "osl-sweep": {"isl": 1024, "osl": (16, 64, 128), "repeats": 3},
    "saturation": {"shape": ("500/100",), "users": (1, 16, 64, 128)},
    "agentic": {"profile": "small", "concurrency": 4, "warmup_s": 10.0, "window_s": 60.0},
}
"""What is run unless `full` asks for the probes' own defaults: minutes on a serve of ordinary speed."""
_LADDERS = ("latency", "envelope", "saturation", "osl-sweep")


@dataclass(frozen=True, slots=True)
class Step:
    """One probe of the plan: its parameters, what it sends, about how long, and what is sealed of it."""

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
    """What a run would do to whom: nothing but two small requests was sent to find out."""

    target: str
    subject: str
    serve: str
    model: str
    steps: tuple[Step, ...]
    basis: str

    @property
    def todo(self) -> list[Step]:
        """Steps that are not sealed yet."""
        return [step for step in self.steps if step.sealed is None]

    @property
    def minutes(self) -> float | None:
        """The fewest minutes the work takes; None where nothing is known."""
        known = [step.minutes for step in self.todo if step.minutes is not None]
        return order_free_sum(known) if known else None

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "target": self.target, "subject": self.subject, "serve": self.serve, "model": self.model,
            "minutes": self.minutes, "basis": self.basis, "steps": [step.as_dict() for step in self.steps],
        }  # fmt: skip


@dataclass(slots=True)
class RouterRun:
    """What came of it: artifacts by probe, what failed and why, and the site."""

    artifacts: dict[str, Artifact] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    site: Path | None = None


def plan_router(
    target: str,
    store: Store,
    *,
    full: bool = False,
    model: str | None = None,
    name_as: str = "",
    hardware: str = "",
    max_seconds: float = 120.0,
) -> RouterPlan:
    """Ask the serve who it is and how fast (two small requests), and lay out what would run.

    Raises:
        TargetError: nobody answers, or the serve refuses.
    """
    with open_target(target, model=model, name=name_as, hardware=hardware) as opened:
        subject, serve, served = opened.subject, serve_facts(opened)["id"], opened.model
        longest, costs = opened.max_model_len, costs_of(target, store) or opened.run(_look)
    steps = []
    for probe in QUICK:
        values = dict(QUICK[probe]) if not full else {}
        if probe in _LADDERS:
            values["max_seconds"] = max_seconds
        chosen = parameters_of(probe, _fitting(probe, values, longest))
        found = _step(probe, as_parameters(chosen), costs)
        sealed = [
            known
            for known in store.artifacts(name=probe, subject=subject)
            if known.verdict.get("ok")
            and known.serve.get("id") == serve
            and _plain(known.parameters) == _plain(found.parameters)
        ]
        steps.append(found if not sealed else Step(**_fields(found) | {"sealed": sealed[-1]}))
    source = costs.source if costs else "unknown"
    return RouterPlan(target, subject, serve, served, tuple(steps), source)


def _fields(step: Step) -> dict[str, Any]:
    return {name: getattr(step, name) for name in Step.__slots__}


def _plain(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in parameters.items() if key not in ("seed", "unsafe")}


def _fitting(probe: str, values: dict[str, Any], longest: int | None) -> dict[str, Any]:
    """Smaller prompts for a serve whose context is short."""
    if longest is None or longest >= 2500:
        return values
    if "context" in values:
        return values | {"context": max(200, longest - 200)}
    if "isl" in values:
        return values | {"isl": max(32, longest // 4), "osl": values["osl"]}
    return values | ({"max_context": longest} if probe == "agentic" else {})


def _step(probe: str, parameters: dict[str, Any], costs: Costs | None) -> Step:
    total = estimate_probe(probe, **parameters)["total"]
    minutes = None
    if costs is not None:
        rungs = whole(probe_named(probe).plan(parameters_of(probe, parameters)), wall=True)
        seconds = order_free_sum(costs.seconds(rung) for rung in rungs)
        if probe == "agentic":  # bounded by its window, whatever the corpus holds
            seconds = parameters["warmup_s"] + parameters["window_s"]
        minutes = seconds / 60
    return Step(probe, parameters, total["requests"], total["prompt_tokens"], total["output_tokens"], minutes)


async def _look(target: Any) -> Costs | None:
    """Fixed cost and cost per token from two small requests; None where they did not complete."""
    took: list[tuple[int, float]] = []
    for tokens in (4, 4, 20):  # the first of a kind may compile
        request = Request(f"look-{len(took)}", "Count from one to a hundred.", tokens)
        (record,) = await run_wave(target, [request], concurrency=1, timeout_s=300)
        if record.e2e_s is None:
            return None
        took.append((tokens, record.e2e_s))
    (_, _), (few, short), (many, long) = took
    per_token = max(0.0, (long - short) / (many - few))
    floor = max(0.0, short - few * per_token)
    return Costs(floor, per_token, 0.0, 0.0, 0.0, 0, 0, True, "two small requests just sent")


def run_router(
    plan: RouterPlan,
    store: Store,
    *,
    progress: Callable[[], Progress],
    say: Callable[[str], None],
    model: str | None = None,
    name_as: str = "",
    hardware: str = "",
) -> RouterRun:
    """Run what is not sealed; a probe that fails is told, and the others go on unless the gate failed.

    Raises:
        TargetError, Interrupted: the serve is gone, or somebody stopped; what is sealed stays.
    """
    done = RouterRun({step.probe: step.sealed for step in plan.steps if step.sealed})
    for step in plan.todo:
        say(f"{step.probe}: {step.requests} requests")
        try:
            artifact = run_probe(
                step.probe, target=plan.target, store=store, progress=progress(), model=model,
                name_as=name_as, hardware=hardware, **step.parameters,
            )  # fmt: skip
        except Interrupted:
            raise
        except (GateFailed, InvalidRun) as error:
            done.failed[step.probe] = str(error)
            if step.probe == "needle-gate":
                break
            continue
        done.artifacts[step.probe] = artifact
        if not artifact.verdict["ok"]:
            done.failed[step.probe] = str(artifact.verdict["reasons"][0])
            if step.probe == "needle-gate":
                break
        elif step.probe == "osl-sweep":
            _fit(store, artifact, done, say)
    return done


def _fit(store: Store, sweep: Artifact, done: RouterRun, say: Callable[[str], None]) -> None:
    try:
        done.artifacts["wall-law"] = store.derive(fit_wall_law, [sweep], subject=sweep.subject)
    except K3Error as error:
        say(f"wall law: {error}")


def build_serve_site(store: Store, folder: Path, say: Callable[[str], None]) -> Path:
    """The site of what `store` holds, in `folder`; returns its index.html.

    Raises:
        MissingExtra: the extra `site` is not installed.
        GateFailed: a number of a page has no artifact.
    """
    try:
        from k3repro.report import Site, build_site
    except ImportError:
        fix = "pip install 'k3repro[site]', then the same command: nothing is measured again."
        raise MissingExtra("the site's libraries are not installed", where="run router", fix=fix) from None
    place = folder / "site"
    shutil.copytree(Path(str(files("k3repro.pipeline"))) / "serve_site", place, dirs_exist_ok=True)
    return build_site(Site(place.resolve()), store, say=say).site / "index.html"
