"""`k3repro run router --target URL`: one serve, the whole set of probes, and a site of that serve alone.

What is sealed of this serve with the same parameters is kept; an interrupted run resumes where it was.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from k3repro.errors import GateFailed, Interrupted, InvalidRun, K3Error, MissingExtra
from k3repro.pipeline._router_plan import QUICK, RouterPlan, Step, plan_router
from k3repro.probes import Progress, fit_wall_law, run_probe
from k3repro.store import Artifact, Store

__all__ = ["QUICK", "RouterPlan", "RouterRun", "Step", "build_serve_site", "plan_router", "run_router"]

SITE_S = 25.0
"""Seconds that are left of the minutes given for building the site."""
Ended = Callable[[str, Artifact], None]


@dataclass(slots=True)
class RouterRun:
    """What came of it, by probe: artifacts, what failed and why, what was left out for want of time."""

    artifacts: dict[str, Artifact] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)

    @property
    def measured(self) -> bool:
        """Whether anything beside the gate was measured."""
        return any(name != "needle-gate" for name in self.artifacts)


def run_router(
    plan: RouterPlan,
    store: Store,
    *,
    progress: Callable[[], Progress],
    say: Callable[[str], None],
    ended: Ended = lambda _, artifact: None,
    unsafe: bool = False,
    tokenizer: str = "",
    model: str | None = None,
    name_as: str = "",
    hardware: str = "",
    clock: Callable[[], float] = time.monotonic,
    began: float | None = None,
) -> RouterRun:
    """Run what is not sealed, as long as the plan's minutes last, from `began` of `clock` on.

    `ended` gets each artifact as it is there. A probe that fails is told, and the others go on; behind a gate
    that failed only with `unsafe`, which taints what they seal.

    Raises:
        TargetError, Interrupted: the serve is gone, or somebody stopped; what is sealed stays.
    """
    done, taint, began = RouterRun(), False, clock() if began is None else began
    options: dict[str, Any] = {
        "model": model,
        "name_as": name_as,
        "hardware": hardware,
        "tokenizer": tokenizer,
    }
    for step in plan.steps:
        artifact = step.sealed
        if artifact is None and (why := _no_time(step, plan, clock() - began)):
            done.left[step.probe] = why
            continue
        if artifact is None:
            try:
                artifact = run_probe(
                    step.probe, target=plan.target, store=store, progress=progress(), unsafe=taint,
                    **options, **step.parameters,
                )  # fmt: skip
            except Interrupted:
                raise
            except (GateFailed, InvalidRun) as error:
                done.failed[step.probe] = str(error)
        if artifact is not None:
            done.artifacts[step.probe] = artifact
            if not artifact.verdict["ok"]:
                done.failed[step.probe] = str(artifact.verdict["reasons"][0])
            ended(step.probe, artifact)
        if step.probe == "needle-gate" and step.probe in done.failed:
            if not unsafe:
                break
            taint = True
        elif step.probe == "osl-sweep" and step.probe not in done.failed and artifact is not None:
            _fit(store, artifact, done, say)
    return done


def _no_time(step: Step, plan: RouterPlan, spent_s: float) -> str:
    """Why there is no time for a step; empty when there is. The first table is always made."""
    left = plan.given * 60 - SITE_S - spent_s
    if step.probe in ("needle-gate", "latency") or left > 60 * (step.minutes or 0.0):
        return ""
    told = f"takes about {step.minutes:.1f}" if step.minutes is not None else "takes nobody knows how long"
    return f"not run: {told}; of {plan.given:g} minutes (--minutes) {max(0.0, left) / 60:.1f} were left"


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
