"""`k3repro run` and `k3repro lab`."""

from __future__ import annotations

import importlib.util
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from k3repro.cli import emit
from k3repro.cli._reach import carried, reach, reach_options
from k3repro.cli._shipped import copy_project, shipped
from k3repro.errors import MissingExtra, UsageError
from k3repro.pipeline import PipelineResult, RunPlan, Silent, explain, reporter, run_pipeline

_MARKS = {"fresh": "dim", "preserved": "dim", "ran": "green", "stale": "yellow", "waits": "yellow"}


@click.command()
@click.argument("pipeline", default="report")
@click.option(
    "--target",
    metavar="T",
    help="Run against T (twin:mi325x, http://router:30000) instead of the file's TARGET.",
    envvar="K3REPRO_TARGET",
)
@click.option("--fresh", is_flag=True, help="Run every stage, fresh ones too; measured ones are left alone.")
@click.option(
    "--explain",
    "only_explain",
    is_flag=True,
    help="Show what would run, why and at what cost; start nothing.",
)
@click.option(
    "--remeasure",
    metavar="STAGE",
    multiple=True,
    help="Run this stage again even though its measured artifact stands.",
)
@click.option(
    "--executor",
    metavar="WHERE",
    default="local",
    show_default=True,
    help="local, inline, or dask:ADDRESS of a running scheduler.",
)
@click.option("--jobs", type=click.IntRange(1), help="Local worker processes. [default: 2]")
@click.option("--yes", is_flag=True, help="router: do not ask before anything is sent.")
@click.option("--full", is_flag=True, help="router: the probes' own defaults instead of the quick set.")
@click.option(
    "--minutes",
    type=click.FloatRange(min=0, min_open=True),
    help="router: about what the whole may take. [default: 5; 60 with --full]",
)
@click.option(
    "--max-tokens",
    type=click.IntRange(1),
    help="router: token cap of a reply in the gate. [default: 64; 2048 where the model thinks]",
)
@click.option("--natural", is_flag=True, help="router: let replies end where the model ends them.")
@click.option(
    "--unsafe", is_flag=True, help="router: go on behind a gate that failed; taints what is sealed."
)
@reach_options
@click.option("--output", type=click.Path(path_type=Path), help="router: folder of its store and site.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON and no progress.")
def run(
    pipeline: str,
    target: str | None,
    fresh: bool,
    only_explain: bool,
    remeasure: tuple[str, ...],
    executor: str,
    jobs: int | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Run PIPELINE (a name in pipelines/ or a .toml file): notebooks in, sealed artifacts out.

    Only stale stages run. Ctrl-C and crashes keep what is done; the same command resumes.

    `router` needs no notebooks: gate, latency, envelope, osl-sweep, saturation and agentic on one URL within
    five minutes, after a plan with its cost and your consent; each table as its probe ends, then a site of
    that serve alone.

    \b
    Examples:
      k3repro run                            the default report, against the twin
      k3repro run report --explain           what would run and why
      k3repro run router --target http://router:30000 --slo ttft=2s,tpot=50ms
      k3repro run report --remeasure osl-sweep
    """
    words = f"k3repro run {pipeline} {carried(target or 'TARGET', options)}"
    reach(options)
    if pipeline == "router":
        _router(target, words, only_explain, as_json, options)
        return
    if only_explain:
        plan = explain(pipeline, target=target, fresh=fresh, remeasure=remeasure)
        emit(plan.as_dict()) if as_json else _print_plan(plan)
        return
    try:
        result = run_pipeline(
            pipeline,
            target=target,
            fresh=fresh,
            remeasure=remeasure,
            executor=executor,
            jobs=jobs,
            reporter=Silent() if as_json else reporter(),
        )
    except KeyboardInterrupt:
        click.echo("k3repro: interrupted; finished stages are kept. The same command resumes.", err=True)
        sys.exit(130)
    if as_json:
        emit(_as_dict(result))
    elif result.ok:
        click.echo(_summary(result))
    if not result.ok and as_json:
        sys.exit(1)
    result.raise_for_failure()


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--json", "as_json", is_flag=True, help="Print what would be started as JSON and start nothing."
)
def lab(arguments: tuple[str, ...], as_json: bool) -> None:
    """Open the notebooks in JupyterLab, on this machine only (127.0.0.1).

    Inside a clone its notebooks are opened. Elsewhere those of the installation are copied to
    ./k3repro-notebooks first; existing files are kept. ARGUMENTS go to JupyterLab unchanged.

    \b
    Examples:
      k3repro lab
      k3repro lab --no-browser --port 9000
    """
    source, installed = shipped()
    project = Path.cwd() / "k3repro-notebooks" if installed else source
    folder = project / "notebooks"
    command = [sys.executable, "-m", "jupyterlab", "--ip=127.0.0.1", *arguments, str(folder)]
    if as_json:
        emit({"command": command})
        return
    if importlib.util.find_spec("jupyterlab") is None:
        raise MissingExtra(
            "JupyterLab is not installed", where="k3repro lab", fix="Install it: pip install 'k3repro[lab]'."
        )
    if installed:
        copy_project(source, project)
        click.echo(f"notebooks, queries and artifacts of this lab: {project}", err=True)
        os.environ.setdefault("K3REPRO_SITE", str(project / "site"))
        os.environ.setdefault("K3REPRO_ARTIFACTS", str(project / "artifacts"))
    os.execv(sys.executable, command)


def _router(
    target: str | None, words: str, only_explain: bool, as_json: bool, options: dict[str, Any]
) -> None:
    """One URL: plan, consent, probes, results, site. Exit code 1: something was found or failed."""
    from k3repro.cli._router import run_on_url

    if not target:
        fix = "Give --target http://router:30000 (or twin:mi325x to try it)."
        raise UsageError("no target", where="run router", fix=fix)
    if not run_on_url(target, words, only_explain=only_explain, as_json=as_json, **options):
        sys.exit(1)


def _as_dict(result: PipelineResult) -> dict[str, Any]:
    stages = [asdict(stage) for stage in result.stages]
    return {
        "pipeline": result.pipeline,
        "ok": result.ok,
        "seconds": round(result.seconds, 3),
        "stages": stages,
    }


def _summary(result: PipelineResult) -> str:
    ran = sum(stage.state == "ran" for stage in result.stages)
    kept = len(result.stages) - ran
    lines = [f"note: {stage.warning}" for stage in result.stages if stage.warning]
    lines.append(f"{result.pipeline}: {ran} ran, {kept} fresh, {result.seconds:.1f} s")
    return "\n".join([*lines, f"executed notebooks: {os.path.relpath(result.executed)}"])


def _print_plan(plan: RunPlan) -> None:
    width = max(len(item.stage.name) for item in plan.stages)
    for item in plan.stages:
        state = click.style(
            f"{item.judgement.state:9}", fg=None if _MARKS[item.judgement.state] == "dim" else "yellow"
        )
        reasons = item.judgement.reasons or ("nothing changed",)
        click.echo(f"{item.stage.name:{width}}  {state}  {reasons[0]}")
        for reason in reasons[1:]:
            click.echo(f"{'':{width}}  {'':9}  {reason}")
    if any(item.stage.serve for item in plan.stages):
        cost = {key: "not stated" if value is None else f"{value:g}" for key, value in plan.cost.items()}
        click.echo(
            "cost: {launches} launches, {requests} requests, {hours} h, {node_hours} node-hours".format(
                **cost
            )
        )
