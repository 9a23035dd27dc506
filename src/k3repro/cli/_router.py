"""`k3repro run router`: what it says before it sends anything, each table as its probe ends, what is next."""

from __future__ import annotations

import re
import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from k3repro.cli import emit
from k3repro.cli._progress import quiet_or_shown
from k3repro.errors import MissingExtra, UsageError
from k3repro.pipeline.router import RouterPlan, RouterRun, build_serve_site, plan_router, run_router
from k3repro.probes import after_gate, parse_slo, results, results_text, told_once
from k3repro.store import Artifact, Store
from k3repro.units import format_decimal, thousands

__all__ = ["run_on_url"]


def run_on_url(
    target: str, words: str, *, only_explain: bool, as_json: bool, yes: bool, full: bool,
    minutes: float | None, max_tokens: int | None, natural: bool, unsafe: bool, slo: str, output: Path | None,
    tokenizer: str, **called: Any,
) -> bool:  # fmt: skip
    """Plan, ask, run, show; whether everything that ran is valid.

    `words` is this command as far as the next one has to repeat it; `called`: model, name and hardware.

    Raises:
        UsageError: nobody can be asked and `yes` was not given.
    """
    parse_slo(slo)
    began = time.monotonic()

    def say(line: str) -> None:
        if not as_json:
            click.echo(line, err=True)

    say(f"asking {target} who it is, and how fast: four small requests")
    folder = output or Path("serve-report") / _slug(target)
    words += f" --output {shlex.quote(str(output))}" * bool(output) + " --natural" * natural
    store = Store(folder / "artifacts")
    plan = plan_router(
        target, store, full=full, minutes=minutes, max_tokens=max_tokens, natural=natural, **called
    )
    if not as_json:
        _print_plan(plan, folder)
    if only_explain:
        if as_json:
            emit(plan.as_dict())
        return True
    _consent(plan, yes or as_json)

    def ended(probe: str, artifact: Artifact) -> None:
        if not as_json:
            _table(probe, artifact, slo)

    done = run_router(
        plan, store, progress=quiet_or_shown(as_json), say=say, unsafe=unsafe, tokenizer=tokenizer,
        began=began, ended=ended, **called,
    )  # fmt: skip
    index, missing = None, "no site: nothing but the gate was run"
    if done.measured:
        try:
            index = build_serve_site(store, folder, lambda line: say(f"  {line}"))
        except MissingExtra as error:
            missing = str(error)
    following = [*_next(plan, done, words, folder, full)]
    if as_json:
        emit(_as_dict(plan, done, slo, index) | {"next": following})
    else:
        _print(done, index, missing, following)
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
    click.echo("Requests and tokens are the most that is sent; a step that finds no time is left out.")
    if plan.thinks:
        cap = plan.steps[0].parameters["max_tokens"]
        click.echo(
            f"The model thinks before it answers: the gate's replies may take {thousands(cap)} tokens."
        )
    if not plan.todo:
        click.echo("everything is sealed for this serve; only the site is built.")
        return
    given = f"{plan.given:g} minutes are given (--minutes)"
    if plan.minutes is None:
        click.echo(f"How long is not known ({plan.basis}); {given}.")
    else:
        about = f"About {format_decimal(plan.minutes, 1)} minutes and the site (from {plan.basis}); {given}."
        click.echo(about)
    if plan.first_table is not None:
        click.echo(f"First table of latencies after about {format_decimal(plan.first_table, 1)} minutes.")
    click.echo(f"Kept in {folder}.")


def _consent(plan: RouterPlan, given: bool) -> None:
    if given or not plan.todo:
        return
    if not (sys.stdin and sys.stdin.isatty()):
        raise UsageError("nobody can be asked here", where="run router", fix="Give --yes to start.")
    if not click.confirm("Send this?", default=False):
        raise click.Abort


def _table(probe: str, artifact: Artifact, slo: str) -> None:
    """What a probe found, as soon as it is known."""
    rows = results(artifact, slo) if probe != "needle-gate" else []
    if rows:
        click.echo("\n".join(["", f"== {probe}", *results_text(rows), ""]))
    elif artifact.verdict.get("power"):
        click.echo(f"{probe}: {artifact.verdict['power']}")


def _next(plan: RouterPlan, done: RouterRun, words: str, folder: Path, full: bool) -> Iterator[str]:
    gate = done.artifacts.get("needle-gate")
    if "needle-gate" in done.failed and gate is not None:
        if gate.verdict.get("outcomes", {}).get("capped"):
            option, why = after_gate(gate)
            yield f"{words} {option}   # {why}"
        root = shlex.quote(str(folder / "artifacts"))
        yield f"k3repro artifacts show {gate.seal[:12]} --artifacts {root}   # every reply"
        if not done.measured:
            yield f"{words} --unsafe   # go on all the same; what is sealed is tainted"
    elif done.left:
        yield f"{words}{' --full' * full}   # goes on with {', '.join(done.left)}"
    elif done.failed:
        yield f"{words}{' --full' * full}   # measures again what is not valid"
    elif not full:
        yield f"{words} --full   # more steps and quantiles, an hour"


def _print(done: RouterRun, index: Path | None, missing: str, following: list[str]) -> None:
    click.echo("")
    for probe, artifact in done.artifacts.items():
        state = "valid" if artifact.verdict.get("ok", True) else "NOT valid"
        click.echo(f"{probe:<14}{state:<11}seal {artifact.seal[:12]}")
        for reason in [] if artifact.verdict.get("ok", True) else told_once(artifact.verdict["reasons"]):
            click.echo(f"  {reason}")
    for probe, reason in done.failed.items():
        if probe not in done.artifacts:
            click.echo(f"{probe}: {reason}")
    for probe, why in done.left.items():
        click.echo(f"{probe:<14}{why}")
    click.echo(f"report: {index}" if index is not None else missing)
    for line in following:
        click.echo(f"next: {line}")


def _as_dict(plan: RouterPlan, done: RouterRun, slo: str, index: Path | None) -> dict[str, Any]:
    found = {
        name: {"seal": a.seal, "ok": a.verdict.get("ok", True), "verdict": a.verdict,
               "results": results(a, slo) if a.kind == "probe" else a.rows(a.schema.tables[0].name)}
        for name, a in done.artifacts.items()
    }  # fmt: skip
    site = str(index) if index else None
    return {
        "plan": plan.as_dict(), "probes": found, "failed": done.failed, "left": done.left, "report": site,
    }  # fmt: skip
