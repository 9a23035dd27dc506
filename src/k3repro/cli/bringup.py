"""`k3repro bringup`: plan, start, watch and stop a serve on a cluster."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click

from k3repro.bringup import (
    Broken,
    Cluster,
    Plan,
    State,
    StateFile,
    Watcher,
    bring_up,
    check_plan,
    cluster_text_of,
    hand_scripts,
    load_cluster,
    load_recipe,
    look_at,
    make_plan,
    refuse_without_effect,
    require_extra,
    router_flags_of,
    started_by_hand,
    tear_down,
)
from k3repro.cli._plan_view import command_of, commands, difference, knobs, router_command, summary
from k3repro.errors import FindingError, GateFailed, MachineError, UsageError

_CLUSTER = click.option(
    "--cluster",
    required=True,
    metavar="FILE",
    help="A cluster file, or the name of one in pipelines/clusters.",
)
_RECIPE = click.option("--recipe", default=None, help="Recipe name or file. Default: the cluster's.")
_SET = click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE",
    help="Override a knob, for example layout.max_num_seqs=32; repeatable.",
)  # fmt: skip
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group()
def bringup() -> None:
    """Bring a serve up on four nodes, prove it, and take it down again (docs/bringup.md)."""


def settings_of(settings: tuple[str, ...]) -> dict[str, Any]:
    """Overrides from KEY=VALUE; the value is TOML-like JSON, or text when it is not."""
    found: dict[str, Any] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise UsageError(
                f"--set {setting!r} is not KEY=VALUE", fix="For example --set layout.max_num_seqs=32."
            )
        try:
            found[key.strip()] = json.loads(value)
        except ValueError:
            found[key.strip()] = value
    return found


def read_plan(
    cluster: str, recipe: str | None, settings: tuple[str, ...], help_file: str | None = None
) -> Plan:
    """The plan of a cluster file, with the overrides of the command line."""
    loaded = load_cluster(cluster)
    base, given = load_recipe(recipe or loaded.recipe), settings_of(settings)
    refuse_without_effect(base, {**loaded.overrides, **given}, replace(loaded, overrides={}))
    chosen = base.with_overrides(given)
    flags = router_flags_of(Path(help_file).read_text(encoding="utf-8")) if help_file else None
    return make_plan(chosen, loaded, router_flags=flags)


@bringup.command()
@_CLUSTER
@_RECIPE
@_SET
@click.option(
    "--router-help", type=click.Path(exists=True, dir_okay=False), default=None,
    help="Saved output of the router's --help; flags it lacks are substituted. Default: the pinned fork's.",
)  # fmt: skip
@click.option("--write", type=click.Path(file_okay=False), default=None,
              help="Write shell scripts, an sbatch file and a Dockerfile into this folder.")  # fmt: skip
@click.option("--diff", "other", default=None, metavar="PLAN",
              help="Only what differs from another cluster, a saved --json plan, or `recipe`.")  # fmt: skip
@click.option("--explain", is_flag=True, help="Every knob with its reason and source, no commands.")
@click.option("--unsafe", is_flag=True, help="Write scripts even if a rule denies the plan; they say so.")
@_JSON
def plan(
    cluster: str, recipe: str | None, settings: tuple[str, ...], router_help: str | None, write: str | None,
    other: str | None, explain: bool, unsafe: bool, as_json: bool,
) -> None:  # fmt: skip
    """Print a summary and the exact commands of a bring-up, in order. Nothing is run.

    Exits with code 1 when a rule denies the plan, and then writes no scripts without --unsafe.

    \b
    Examples:
      k3repro bringup plan --cluster mi325x-thor2
      k3repro bringup plan --cluster my.toml --write plan/
      k3repro bringup plan --cluster my.toml --set layout.max_num_seqs=16 --diff recipe
      k3repro bringup plan --cluster my.toml --explain
      vllm-router --help > help.txt; k3repro bringup plan --cluster my.toml --router-help help.txt --json
    """
    made = read_plan(cluster, recipe, settings, router_help)
    denied = [item for item in check_plan(made) if item.outcome == "deny"]
    if write is not None and (unsafe or not denied):
        _write(made, Path(write), [f"[{item.id}] {item.what}. {item.reason}" for item in denied])
    if as_json:
        from k3repro.cli import emit

        emit(plan_document(made))
    else:
        _show(made, other, explain=explain)
    if denied and not unsafe:
        if as_json:
            click.get_current_context().exit(FindingError.exit_code)  # one JSON document, not two
        raise _denial(made, denied)


def _write(made: Plan, folder: Path, denied: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    files = hand_scripts(made, denied)
    for name, text in files.items():
        path = folder / name
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755 if name.endswith((".sh", ".sbatch")) else 0o644)
    click.echo(f"{len(files)} files in {folder}", err=True)


def _denial(made: Plan, broken: list[Broken]) -> FindingError:
    names = sorted({item.id for item in broken})
    return FindingError(
        f"rules deny this plan: {', '.join(names)}", where=made.cluster.name,
        fix="`k3repro bringup plan` explains each; --unsafe goes on anyway.",
    )  # fmt: skip


def plan_document(made: Plan) -> dict[str, Any]:
    """The plan as `--json` prints it."""
    steps = [
        {"role": item.role, "node": item.node.host, "address": item.node.address, "log": item.log,
         "env": item.variables, "engine": list(item.engine), "command": list(command_of(made, item.role))}
        for item in made.launches
    ]  # fmt: skip
    router = {"node": made.router.node.host, "url": made.router.url, "command": list(router_command(made))}
    return {
        "recipe": made.recipe.name, "cluster": made.cluster.name, "digest": made.digest, "steps": steps,
        "router": router, "substitutions": [item.as_dict() for item in made.substitutions],
        "rules": [asdict(item) for item in check_plan(made)],
        "choices": [asdict(choice) for choice in made.recipe.choices], "knobs": knobs(made),
    }  # fmt: skip


def _show(made: Plan, other: str | None, *, explain: bool) -> None:
    for line in difference(made, other) if other else summary(made):
        click.echo(line)
    if other:
        return
    if explain:
        for knob in knobs(made):
            click.echo(f"\n{knob['section']}.{knob['name']} = {knob['value']!r}")
            click.echo(f"  {knob['why']} ({knob['source']})")
            if "cost" in knob:
                click.echo(f"  measured: {knob['cost']}")
        return
    for line in commands(made):
        click.echo(line)
    for choice in made.recipe.choices:
        click.echo(f"# choice: {choice.topic}: follows the {choice.follows}. {choice.why}")


@bringup.command()
@_CLUSTER
@_RECIPE
@_SET
@click.option(
    "--gate/--no-gate",
    default=True,
    show_default=True,
    help="Run the needle gate before reporting the serve up.",
)
@click.option(
    "--gate-context", default=None, type=int, help="Context of the gate in tokens. Default: the probe's."
)
@click.option("--unsafe", is_flag=True, help="Start even if a rule denies the plan.")
@_JSON
def up(
    cluster: str, recipe: str | None, settings: tuple[str, ...], gate: bool, gate_context: int | None,
    unsafe: bool, as_json: bool,
) -> None:  # fmt: skip
    """Start workers, masters and router, prove that they answer, and gate them. Safe to repeat.

    \b
    Examples:
      k3repro bringup up --cluster my.toml
      k3repro bringup up --cluster my.toml --set layout.max_num_seqs=16 --no-gate --json
    """
    require_extra(load_cluster(cluster))
    made = read_plan(cluster, recipe, settings)
    _allowed(made, unsafe)
    state = asyncio.run(bring_up(made, cluster_text_of(cluster), _say))
    if gate and state.phase != "up":
        _gate(made, state, gate_context)
    elif not gate:
        _say("not gated: performance probes will refuse this serve")
    if as_json:
        from k3repro.cli import emit

        emit(asdict(state))


def _allowed(made: Plan, unsafe: bool) -> None:
    """Say what rules the plan breaks.

    Raises:
        FindingError: one that denies it, unless `unsafe`.
    """
    broken = check_plan(made)
    for item in broken:
        _say(f"{item.outcome}: [{item.id}] {item.what}. {item.reason} {item.fix}")
    denied = [item for item in broken if item.outcome == "deny"]
    if denied and not unsafe:
        raise _denial(made, denied)


def _say(text: str) -> None:
    click.echo(text, err=True)


def _gate(made: Plan, state: State, context: int | None) -> None:
    from k3repro.bringup import gate_serve

    artifact = gate_serve(made, state, context)
    if not artifact.verdict["ok"]:
        raise GateFailed(
            f"the needle gate failed: {'; '.join(artifact.verdict['reasons'])}", where=state.url,
            fix="Relaunch all four: `k3repro bringup down`, then up. Trust no number of this serve.",
        )  # fmt: skip
    _say(f"up: gate passed, artifact {artifact.seal[:12]}")


@bringup.command()
@_CLUSTER
@_JSON
def status(cluster: str, as_json: bool) -> None:
    """Show what runs on every node, and the first error of each.

    \b
    Examples:
      k3repro bringup status --cluster my.toml
      k3repro bringup status --cluster my.toml --json
    """
    loaded = load_cluster(cluster)
    state = StateFile(loaded.name).load()
    if state is None:
        _nothing(loaded, as_json)
        return
    statuses = asyncio.run(look_at(state))
    document = {"cluster": loaded.name, "serve": state.serve, "phase": state.phase, "url": state.url,
                "roles": {role: asdict(item) for role, item in statuses.items()}}  # fmt: skip
    lines = [f"{loaded.name}: serve {state.serve}, phase {state.phase}, {state.url}"]
    for role, item in statuses.items():
        cause = f"  line {item.root_cause[0]}: {item.root_cause[1]}" if item.root_cause else ""
        lines.append(f"  {role:16} {item.node:12} {'alive' if item.alive else 'GONE '}{cause}")
    _answer(document, as_json, "\n".join(lines))
    gone = any(not item.alive for item in statuses.values())
    if gone and as_json:
        click.get_current_context().exit(FindingError.exit_code)  # one JSON document, not two
    if gone:
        raise FindingError(
            "a role is gone", where=loaded.name, fix="Relaunch all four: `k3repro bringup down`, then up."
        )


def _nothing(cluster: Cluster, as_json: bool) -> None:
    """No state here; the scripts of `plan --write` keep none, so Slurm and the nodes are asked."""
    by_hand = asyncio.run(started_by_hand(cluster))
    text = "\n  ".join([f"{cluster.name}: nothing was started from here", *by_hand])
    _answer({"cluster": cluster.name, "phase": "down", "by_hand": by_hand}, as_json, text)


def _answer(document: dict[str, Any], as_json: bool, text: str) -> None:
    if as_json:
        from k3repro.cli import emit

        emit(document)
    else:
        click.echo(text)


@bringup.command()
@_CLUSTER
@click.option(
    "--drain/--no-drain", default=True, show_default=True, help="Wait for requests in flight first."
)
@_JSON
def down(cluster: str, drain: bool, as_json: bool) -> None:
    """Stop what `up` started, in reverse order, and verify that it is gone. Nothing else is touched.

    \b
    Examples:
      k3repro bringup down --cluster my.toml
      k3repro bringup down --cluster my.toml --no-drain --json
    """
    loaded = load_cluster(cluster)
    name = loaded.name
    report = asyncio.run(tear_down(name, _say, drain=drain))
    if report is None:
        _nothing(loaded, as_json)
        return
    text = f"{name}: serve {report.serve} is down after {report.seconds:.1f} s; nothing of it is left"
    _answer(report.as_dict(), as_json, text)


@bringup.command()
@_CLUSTER
@click.option("--once", is_flag=True, help="Look once and end.")
@click.option(
    "--every", default=30.0, show_default=True, type=click.FloatRange(0.1), help="Seconds between looks."
)
@click.option(
    "--silent", "silent_s", default=120.0, show_default=True, type=click.FloatRange(1),
    help="Seconds without a token, with requests in flight and idle GPUs, before it counts as wedged.",
)  # fmt: skip
@click.option(
    "--answer", "answer_s", default=60.0, show_default=True, type=click.FloatRange(1),
    help="Timeout in seconds of the watch's own requests.",
)  # fmt: skip
@click.option(
    "--requests/--no-requests", default=True, show_default=True,
    help="Send a canary and needles when nothing else is in flight, or nothing moves.",
)  # fmt: skip
@click.option("--keep-going", is_flag=True, help="Go on after a finding.")
@_JSON
def watch(
    cluster: str, once: bool, every: float, silent_s: float, answer_s: float, requests: bool,
    keep_going: bool, as_json: bool,
) -> None:  # fmt: skip
    """Watch a serve and report when it is wedged, degraded, blind or half restarted, with the remedy.

    Exits with code 1 at the first finding. With --json each look is one line (one document with --once).

    \b
    Examples:
      k3repro bringup watch --cluster my.toml --once
      k3repro bringup watch --cluster my.toml --every 60 >> health.log 2>&1 &
      k3repro bringup watch --cluster my.toml --no-requests --json
    """
    name = load_cluster(cluster).name
    state = StateFile(name).load()
    if state is None or state.phase not in {"answering", "up"}:
        phase = "down" if state is None else state.phase
        raise MachineError(
            f"no serve to watch: phase {phase}", where=name, fix="Start one: `k3repro bringup up`."
        )
    found = asyncio.run(
        _watch(Watcher(state, requests=requests, silent_s=silent_s, answer_s=answer_s),
               0.0 if once else every, keep_going, as_json)
    )  # fmt: skip
    if found:
        click.get_current_context().exit(FindingError.exit_code)


async def _watch(watcher: Watcher, every: float, keep_going: bool, as_json: bool) -> bool:
    """Look until a finding, or once when `every` is 0; whether the last look found anything."""
    try:
        while True:
            look = await watcher.look()
            if as_json:
                click.echo(json.dumps(look.as_dict(), sort_keys=True, indent=None if every else 2))
            else:
                click.echo(f"{time.strftime('%H:%M:%S')} {look.line()}")
            if not every or (look.advice and not keep_going):
                return bool(look.advice)
            await asyncio.sleep(every)
    finally:
        await watcher.close()


@bringup.command()
@click.argument("trace", type=click.Path(exists=True, dir_okay=False))
@_JSON
def census(trace: str, as_json: bool) -> None:
    """Count the kernels of a profiler trace by family and precision: what ran, not what was asked for.

    Reads torch's Chrome JSON (gzip or not) and rocprof's CSV or JSON.

    \b
    Examples:
      k3repro bringup census trace.json.gz
      k3repro bringup census 123_kernel_trace.csv --json
    """
    from k3repro.bringup.census import census_of, read_trace

    document = census_of(read_trace(trace)).as_dict()
    lines = [f"{row['family']:14} {row['precision']:8} {row['launches']:7}" for row in document["kernels"]]
    lines += [f"unknown: {count} x {name}" for name, count in document["unknown"].items()]
    _answer(document, as_json, "\n".join([*lines, document["verdict"]]))
