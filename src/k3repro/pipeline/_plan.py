"""What a run would do and why, before anything starts; every mistake in a pipeline is found here."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from k3repro.errors import PipelineError
from k3repro.pipeline._freshness import PRESERVED, STALE, WAITS, Freshness, Judgement
from k3repro.pipeline._inputs import file_digests
from k3repro.pipeline._source import Source, check_parameters, read_source
from k3repro.pipeline._spec import EVERYTHING, Pipeline, Stage


@dataclass(frozen=True)
class Planned:
    """One stage of a plan."""

    stage: Stage
    source: Source
    judgement: Judgement

    def as_dict(self) -> dict[str, Any]:
        """The stage as `--explain --json` prints it."""
        serve = self.stage.serve
        return {
            "stage": self.stage.name,
            "state": self.judgement.state,
            "why": list(self.judgement.reasons),
            "notebook": self.stage.notebook,
            "seals": list(self.stage.seals),
            "serve": None
            if serve is None
            else {
                "recipe": serve.recipe,
                "nodes": serve.nodes,
                "requests": serve.requests,
                "hours": serve.hours,
            },
        }


@dataclass(frozen=True)
class RunPlan:
    """All stages in the order they would run, and what their serves would cost."""

    stages: tuple[Planned, ...]

    @property
    def cost(self) -> dict[str, Any]:
        """Launches, requests, hours and node-hours of what will run; None where a stage states nothing."""
        serves = [item.stage.serve for item in self.stages if item.judgement.state in (STALE, WAITS)]
        used = [serve for serve in serves if serve is not None]
        shared = {serve.launch for serve in used if not serve.fresh}
        nodes = [s.nodes * s.hours if s.nodes is not None and s.hours is not None else None for s in used]
        return {
            "launches": len(shared) + sum(serve.fresh for serve in used),
            "requests": _total([serve.requests for serve in used]),
            "hours": _total([serve.hours for serve in used]),
            "node_hours": _total(nodes),
        }

    def as_dict(self) -> dict[str, Any]:
        """The plan as `--explain --json` prints it."""
        return {"stages": [item.as_dict() for item in self.stages], "cost": self.cost}


def make_plan(
    pipeline: Pipeline,
    freshness: Freshness,
    *,
    fresh: bool = False,
    remeasure: Collection[str] = (),
    remote: bool = False,
) -> RunPlan:
    """Check every stage and judge it; `fresh` forces all but measured ones, `remeasure` names those.

    Raises:
        PipelineError: a notebook, kernel name, parameter, module or stage name is wrong, or a stage that will
            run needs a serve while no target was given (`remote`).
    """
    for name in remeasure:
        pipeline.stage(name)
    sources = {stage.name: _checked(pipeline, stage) for stage in pipeline.stages}
    planned: dict[str, Planned] = {}
    for stage in pipeline.stages:
        judgement = _judge(pipeline, freshness, stage, sources[stage.name], planned, fresh, remeasure)
        planned[stage.name] = Planned(stage, sources[stage.name], judgement)
        if stage.serve and judgement.state in (STALE, WAITS) and not remote:
            raise PipelineError(
                f"needs a serve of recipe {stage.serve.recipe!r} and this version does not bring one up",
                where=f"{pipeline.path}: stage {stage.name!r}",
                fix="Start it yourself and give its address: --target http://ROUTER:PORT.",
            )
    return RunPlan(tuple(planned.values()))


def check_kernels(plan: Sequence[Planned], where: Any) -> None:
    """Refuse kernels that are not installed, before the first stage starts (imports jupyter_client)."""
    try:
        from jupyter_client.kernelspec import KernelSpecManager
    except ImportError:
        return  # the worker names the missing extra
    known = sorted(KernelSpecManager().find_kernel_specs())
    for item in plan:
        if item.source.kernel not in known:
            raise PipelineError(
                f"{item.source.path.name} wants kernel {item.source.kernel!r}, which is not installed",
                where=f"{where}: stage {item.stage.name!r}",
                fix=f"Installed: {', '.join(known) or 'none'}. Choose one in JupyterLab and save.",
            )


def _checked(pipeline: Pipeline, stage: Stage) -> Source:
    where = f"{pipeline.path}: stage {stage.name!r}"
    source = read_source(pipeline.root / stage.notebook, where=where)
    check_parameters(source, stage.parameters, where=where)
    file_digests(pipeline, stage)  # a pattern that matches nothing is found before anything starts
    return source


def _judge(
    pipeline: Pipeline,
    freshness: Freshness,
    stage: Stage,
    source: Source,
    planned: Mapping[str, Planned],
    fresh: bool,
    remeasure: Collection[str],
) -> Judgement:
    if stage.name in remeasure:
        return Judgement(STALE, ("--remeasure",))
    judgement = freshness.judge(stage, source)
    if judgement.state == PRESERVED:
        return judgement
    if fresh:
        return Judgement(STALE, ("--fresh",))
    moving = [name for name in pipeline.needs(stage) if planned[name].judgement.state in (STALE, WAITS)]
    inputs_move = any(
        set(planned[name].stage.seals) & set(stage.inputs) or EVERYTHING in stage.inputs for name in moving
    )
    if not judgement.runs and inputs_move:
        return Judgement(WAITS, (f"runs if {' or '.join(moving)} seals something new",), judgement.seals)
    return judgement


def _total(values: Sequence[float | None]) -> float | None:
    """The sum, or None as soon as one is not stated: a partial sum would read like a promise."""
    return (
        None
        if any(value is None for value in values)
        else sum(value for value in values if value is not None)
    )
