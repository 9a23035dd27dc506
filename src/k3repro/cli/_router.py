"""`k3repro run router`: what it says before it sends anything, and what it prints at the end."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import click

from k3repro.cli import emit
from k3repro.cli._progress import quiet_or_shown
from k3repro.errors import MissingExtra, UsageError
from k3repro.pipeline.router import RouterPlan, RouterRun, build_serve_site, plan_router, run_router
from k3repro.probes import parse_slo, results, results_text
from k3repro.store import Store
from k3repro.units import format_decimal, thousands

__all__ = ["run_on_url"]


def run_on_url(
    target: str, *, only_explain: bool, as_json: bool, yes: bool, full: bool, name_as: str, model: str | None,
    hardware: str, slo: str, max_seconds: float, output: Path | None,
) -> bool:  # fmt: skip
    """Plan, ask, run, show; whether everything that ran is valid.

    Raises:
        UsageError: nobody can be asked and `yes` was not given.
    """
    parse_slo(slo)

    def say(line: str) -> None:
        if not as_json:
            click.echo(line, err=True)

    say(f"asking {target} who it is, and how fast: two small requests")
    folder = output or Path("serve-report") / re.sub(r"[^A-Za-z0-9.]+", "-", target.partition("?")[0]).strip(
        "-"
    )
    store = Store(folder / "artifacts")
    plan = plan_router(
        target, store, full=full, model=model, name_as=name_as, hardware=hardware, max_seconds=max_seconds
    )
    if not as_json:
        _print_plan(plan, folder)
    if only_explain:
        if as_json:
            emit(plan.as_dict())
        return True
    _consent(plan, yes or as_json)
    done = run_router(
        plan,
        store,
        progress=quiet_or_shown(as_json),
        say=say,
        model=model,
        name_as=name_as,
        hardware=hardware,
    )
    index, missing = None, ""
    try:
        index = build_serve_site(store, folder, lambda line: say(f"  {line}"))
    except MissingExtra as error:
        missing = str(error)
    if as_json:
        emit(_as_dict(plan, done, slo, index))
    else:
        _print(done, slo, index, missing)
    return not done.failed


def _slug(target: str) -> str:
    return re.sub(r"[^A-Za-z0-9.]+", "-", target.partition("?")[0]).strip("-")


def _print_plan(plan: RouterPlan, folder: Path) -> None:
    click.echo(f"{plan.subject}: model {plan.model}, serve {plan.serve}")
    click.echo(f"{'probe':<14}{'requests':>10}{'prompt tokens':>16}{'output tokens':>16}{'minutes':>10}")
    for step in plan.steps:
        known = "?" if step.minutes is None else format_decimal(step.minutes, 1)
        counts = f"{thousands(step.requests):>10}{thousands(step.prompt_tokens):>16}"
        counts += f"{thousands(step.output_tokens):>16}"
        click.echo(f"{step.probe:<14}{counts}{'sealed' if step.sealed else known:>10}")
    if plan.todo:
        minutes = "unknown" if plan.minutes is None else f"at least {format_decimal(plan.minutes, 1)} minutes"
        click.echo(f"{minutes} (from {plan.basis}; prefill and queueing come on top). Kept in {folder}.")
    else:
        click.echo("everything is sealed for this serve; only the site is built.")


def _consent(plan: RouterPlan, given: bool) -> None:
    if given or not plan.todo:
        return
    if not (sys.stdin and sys.stdin.isatty()):
        raise UsageError("nobody can be asked here", where="run router", fix="Give --yes to start.")
    if not click.confirm("Send this?", default=False):
        raise click.Abort


def _print(done: RouterRun, slo: str, index: Path | None, missing: str) -> None:
    for probe, artifact in done.artifacts.items():
        rows = (
            results(artifact, slo)
            if artifact.kind == "probe" and probe not in ("needle-gate", "agentic")
            else []
        )
        if rows:
            click.echo("\n".join(["", f"== {probe}", *results_text(rows)]))
    click.echo("")
    for probe, artifact in done.artifacts.items():
        state = "valid" if artifact.verdict.get("ok", True) else "NOT valid"
        click.echo(f"{probe:<14}{state:<11}seal {artifact.seal[:12]}")
    for probe, reason in done.failed.items():
        click.echo(f"{probe}: {reason}")
    if index is not None:
        click.echo(f"report: {index}")
    else:
        click.echo(missing)


def _as_dict(plan: RouterPlan, done: RouterRun, slo: str, index: Path | None) -> dict[str, Any]:
    found = {
        name: {"seal": a.seal, "ok": a.verdict.get("ok", True), "verdict": a.verdict,
               "results": results(a, slo) if a.kind == "probe" else a.rows(a.schema.tables[0].name)}
        for name, a in done.artifacts.items()
    }  # fmt: skip
    site = str(index) if index else None
    return {"plan": plan.as_dict(), "probes": found, "failed": done.failed, "report": site}
