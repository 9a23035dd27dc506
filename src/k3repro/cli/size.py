"""`k3repro capacity size`: the cheapest deployment that keeps a latency goal for a workload, simulated."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from k3repro.cli import emit
from k3repro.cli._launch import Tokens
from k3repro.errors import UsageError
from k3repro.pipeline import open_executor
from k3repro.sizing import (
    METRICS,
    MOST_NODES,
    VERDICTS,
    Answer,
    Goal,
    Judged,
    NodeAnswer,
    answer,
    checked_users,
    fewest,
    parse_goal,
    plan_of,
    size_nodes,
    surest,
)
from k3repro.sizing.calibrate import fit, observations
from k3repro.sizing.known import calibrated_constants, errors_of_levels, fidelity_cells
from k3repro.sizing.write import write_plan
from k3repro.store import Store
from k3repro.twin import platform_names
from k3repro.workload import PROCESSES, ClosedLoop, Workload, generate, profile_names, read_corpus

__all__ = ["calibrate", "size"]


_WORKLOAD = (
    click.option("--isl", default="1024", help="Prompt tokens: 200K, 512..2048, lognormal:1000,8000."),
    click.option("--osl", default="256", help="Output tokens, in the same forms."),
    click.option("--users", type=int, help="Closed loop: users, each with one request at a time."),
    click.option("--think", type=float, default=0.0, help="Seconds between a user's requests."),
    click.option("--rate", type=float, help="Open loop instead: requests a second."),
    click.option(
        "--arrival",
        type=click.Choice(PROCESSES),
        default="poisson",
        show_default=True,
        help="How requests come at a --rate.",
    ),
    click.option("--burst", type=int, default=8, help="Requests that come together (--arrival burst)."),
    click.option("--profile", type=click.Choice(profile_names()), help="Sessions of an agentic profile."),
    click.option(
        "--trace", type=click.Path(path_type=Path), help="CSV of isl,osl,arrival_s; Weka, Mooncake, ShareGPT."
    ),
    click.option("--prefix-tokens", type=Tokens(), default=0, help="Tokens that prompts of a group share."),
    click.option("--prefix-groups", type=int, default=1, help="Groups with a shared prefix each."),
    click.option("--requests", type=int, default=0, help="Requests to simulate; as many as users: one wave."),
)


def _workload_options(function: Any) -> Any:
    for option in reversed(_WORKLOAD):
        function = option(function)
    return function


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@_workload_options
@click.option("--ttft", help="Limit on the time to first token: 30@p95 (seconds).")
@click.option("--tpot", help="Limit on the time per output token: 100@p50 (milliseconds).")
@click.option("--e2e", help="Limit on a whole request: 120@p95 (seconds).")
@click.option("--model", default="kimi-k3", show_default=True, help="Model, spec .toml or config.json.")
@click.option(
    "--platform", default="mi300x,mi325x", show_default=True, help="One or more, separated by commas."
)
@click.option("--price", help="US dollars per node-hour: 16, or mi300x=16,mi325x=20.")
@click.option(
    "--max-nodes", type=int, default=MOST_NODES, show_default=True, help="Largest number of nodes to try."
)
@click.option("--all", "all_of_them", is_flag=True, help="Simulate every candidate up to --max-nodes.")
@click.option("--executor", default="inline", show_default=True, help="inline, local, or dask:ADDRESS.")
@click.option("--constants", type=click.Path(path_type=Path), help="Constants that `calibrate` wrote.")
@click.option("--write", type=click.Path(path_type=Path), help="Folder for recipe, overrides and pipeline.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of lengths and arrivals.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def size(
    ttft: str | None, tpot: str | None, e2e: str | None, model: str, platform: str, price: str | None,
    max_nodes: int, all_of_them: bool, executor: str, constants: Path | None, write: Path | None, seed: int,
    as_json: bool, requests: int, **given: Any,
) -> None:  # fmt: skip
    """Nodes and settings that keep latency goals for a workload. Times are simulated; each comes with how far
    the twin was off where it could be compared. The first answer is the deployment of fewest nodes that keeps
    the limits as simulated; where more nodes are surer, they follow. Exit 1 unless one of them is a yes.

    \b
    yes       kept even if the twin is off by the worst error of three held-out cells or more
    likely    kept even if the twin is off by its median error there
    possible  kept as simulated, broken if the twin is off by its median error there
    unknown   kept as simulated; nothing printed says how wrong the twin is there
    no        not kept by anything that was tried
    fits      no limit was given: everybody is served in the end

    \b
    Examples:
      k3repro capacity size --isl 200K --osl 512 --users 100
      k3repro capacity size --isl 1024 --osl 256 --users 256 --ttft 10@p95 --tpot 120@p95 --price 16
      k3repro capacity size --profile conformance_256k --users 16 --platform mi325x
      k3repro capacity size --isl 4K --osl 512 --rate 2.5 --e2e 90@p95 --write plan/
    """
    workload = _workload(given)
    goals = [parse_goal(m, text) for m, text in (("ttft", ttft), ("tpot", tpot), ("e2e", e2e)) if text]
    checked_users(workload, max_nodes)
    if requests < 0:
        raise UsageError(f"--requests {requests}", fix="Give 0 (as many as percentiles need) or more.")
    names = [name.strip() for name in platform.split(",") if name.strip()]
    prices = _prices(price, names)
    worst = max((goal.percentile for goal in goals), default=95)
    plan = plan_of(workload, requests=requests, percentile=worst, seed=seed)
    if constants is not None:
        plan = replace(plan, constants=_constants(constants))
    if not as_json:
        click.echo(_asked(workload, given, goals))
    calibrated = [name for name in names if model == "kimi-k3" and name in platform_names()]
    with _executor(executor) as pool:
        answers = [
            answer(
                name, plan, goals, most_nodes=max_nodes, errors=fidelity_cells(),
                constants=calibrated_constants(), price_per_node_hour=prices.get(name),
                all_of_them=all_of_them, executor=pool,
            )
            for name in calibrated
        ]  # fmt: skip
    others = [
        size_nodes(model, name, plan, goals, most_nodes=max_nodes, errors=errors_of_levels())
        for name in names
        if name not in calibrated
    ]
    least, best = fewest(answers), surest(answers)
    result: dict[str, Any] = {
        "workload": workload.as_dict() | {"requests": len(plan.sessions)},
        "goals": [str(goal) for goal in goals],
        "cheapest" if all(name in prices for name in calibrated) else "fewest_nodes": (
            least.found.platform if least else None
        ),
        "surest": best.found.platform if best else None,
        "platforms": [one.as_dict() for one in answers] + [one.as_dict() for one in others],
    }
    if write is not None and best is not None:
        from k3repro.bringup import find_pipelines  # slow to import, and seldom needed

        recipes = find_pipelines() / "recipes"
        result["written"] = [path.name for path in write_plan(best, workload, goals, write, recipes)]
    if as_json:
        emit(result)
    else:
        _show(answers, goals)
        _show_best(answers)
        _show_nodes(others)
        if best is not None and "written" in result:
            click.echo(f"written for {_named(best, best.picks[-1])}: {', '.join(result['written'])}")
    if best is None or not best.sure:
        sys.exit(1)


def _workload(given: dict[str, Any]) -> Workload:
    if given["users"] is not None and given["rate"] is not None:
        raise UsageError("users or a rate, not both", fix="--users: closed loop; --rate: open loop.")
    loop: dict[str, Any] = {
        "users": 1 if given["users"] is None else given["users"],
        "think_s": given["think"],
    }
    if given["rate"] is not None:
        loop = {"rate": given["rate"], "arrival": given["arrival"], "burst": given["burst"]}
    corpus = generate(given["profile"]) if given["profile"] else None
    corpus = read_corpus(given["trace"]) if given["trace"] else corpus
    shared = {name: given[name] for name in ("prefix_tokens", "prefix_groups")}
    return Workload.of({"isl": given["isl"], "osl": given["osl"], **loop, **shared}, corpus)


def _constants(path: Path) -> tuple[tuple[str, int], ...]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))["constants"]
        return tuple((str(name), int(value)) for name, value in found.items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise UsageError(
            f"{path.name} holds no constants", fix="Write it with `k3repro capacity calibrate --write FILE`."
        ) from None


def _prices(text: str | None, names: list[str]) -> dict[str, float]:
    try:
        if text is None:
            return {}
        if "=" not in text:
            return dict.fromkeys(names, float(text))
        return {name.strip(): float(value) for name, value in (p.split("=", 1) for p in text.split(","))}
    except ValueError:
        raise UsageError(f"--price {text!r}", fix="Write --price 16, or mi300x=16,mi325x=20.") from None


@contextmanager
def _executor(name: str) -> Iterator[Executor | None]:
    if name == "inline":
        yield None
        return
    with open_executor(name) as pool:
        yield pool


def _asked(workload: Workload, given: dict[str, Any], goals: list[Goal]) -> str:
    """The question in a line, and what was assumed where it left something open."""
    loop = workload.arrival
    if isinstance(loop, ClosedLoop):
        who = "1 user" if loop.users == 1 else f"{loop.users:,} users"
        pause = f", {loop.think_s:g} s after the last" if loop.think_s else ""
        load = f"{who}, each with one request at a time{pause}"
    else:
        load = f"{loop.rate_per_s:g} requests a second ({loop.process})"
    isl, osl = (f"{one.highest:,}" if one.kind == "fixed" else one for one in (workload.isl, workload.osl))
    what = workload.corpus.name if workload.corpus else f"{isl} prompt + {osl} output tokens"
    limits = " and ".join(map(str, goals)) or "no limit on any time"
    lines = [f"{load}; {what}; {limits}"]
    if given["users"] is None and given["rate"] is None:
        lines.append("assumed: a single user, since neither --users nor --rate was given")
    if not goals:
        lines.append("assumed: any wait will do, since none of --ttft, --tpot and --e2e was given")
    return "\n".join(lines)


def _times(trial: dict[str, Any], keys: list[str]) -> str:
    """`TTFT p95 350.1 s` of each key such as ttft_s_p95."""
    found = []
    for key in keys:
        quantity, percentile = key.rsplit("_", 1)
        metric, unit = next((name, unit) for name, (known, _, unit) in METRICS.items() if known == quantity)
        found.append(f"{metric.upper()} {percentile} {trial[key]:g} {unit}")
    return ", ".join(found)


def _show(answers: list[Answer], goals: list[Goal]) -> None:
    keys = [goal.key for goal in goals] or ["ttft_s_p95", "e2e_s_p95"]
    for one in answers:
        picks = one.picks
        steps = [f"{pick.trial.candidate.nodes} nodes: {pick.verdict}" for pick in picks]
        click.echo(f"{one.found.platform}: {'; '.join(steps) or 'no'}")
        if not picks:
            for reason in one.reasons:
                click.echo(f"  {reason}")
            continue
        data = one.as_dict()
        choice = data["choice"]
        click.echo(f"  {_settings(choice)}")
        _show_times(choice, data["fidelity"])
        click.echo(
            f"  {choice['tokens_per_s']:g} tokens/s ({choice['out_tokens_per_s']:g} output); a user gets "
            f"{choice['user_tokens_per_s']:g} tokens/s"
        )
        click.echo(f"  binds: {one.binds}; helps: {one.knob}")
        if choice["cost"]:
            click.echo("  " + ", ".join(f"{k.replace('_', ' ')} {v:g}" for k, v in choice["cost"].items()))
        for reason in one.reasons:
            click.echo(f"  why {one.verdict}: {reason}")
        for other in data["surer"]:
            click.echo(f"  {other['verdict']}: {_settings(other)}: {_times(other, keys)}")
        _show_others(data, keys)


def _settings(trial: dict[str, Any]) -> str:
    return (
        f"{trial['nodes']} nodes, {trial['shape']}, {trial['max_num_seqs']} slots a lane, "
        f"{trial['kv_pool_bytes'] / 1e9:g} GB KV pool, KV splits: {trial['kv_splits']}"
    )


def _show_times(choice: dict[str, Any], fidelity: dict[str, Any]) -> None:
    for metric, (quantity, _, unit) in METRICS.items():
        known = fidelity[metric]
        error = (
            f"twin off by {known['median_error']:.0%} (worst {known['worst_error']:.0%}) in "
            f"{known['held_out_cells']} held-out cell{'s' if known['held_out_cells'] > 1 else ''}, "
            f"{known['regime']}"
            if "regime" in known
            else f"error unknown: {known['unknown']}"
        )
        p50, p95 = choice[f"{quantity}_p50"], choice[f"{quantity}_p95"]
        click.echo(f"  {metric.upper()} p50 {p50:g}, p95 {p95:g} {unit}, simulated; {error}")


def _show_best(answers: list[Answer]) -> None:
    """The fewest nodes of all platforms, the surest, and what the words mean that were said."""
    least, sure = fewest(answers), surest(answers)
    if least and sure and len(answers) > 1:
        what = "cheapest" if all(one.price_per_node_hour for one in answers) else "fewest nodes"
        cheap, certain = _named(least, least.picks[0]), _named(sure, sure.picks[-1])
        same = cheap == certain
        click.echo(f"{what} and surest: {cheap}" if same else f"{what}: {cheap}; surest: {certain}")
    said = {pick.verdict for one in answers for pick in one.picks}
    for word in (word for word in VERDICTS if word in said):
        click.echo(f"{word}: {VERDICTS[word]}")


def _named(one: Answer, pick: Judged) -> str:
    return f"{one.found.platform}, {pick.trial.candidate.nodes} nodes ({pick.verdict})"


def _show_nodes(answers: Sequence[NodeAnswer]) -> None:
    for one in answers:
        if one.why:
            click.echo(f"{one.model} on {one.gpu}: no\n  {one.why}")
            continue
        span = f", each over {one.nodes // one.replicas} nodes" if one.replicas < one.nodes else ""
        click.echo(
            f"{one.model} on {one.gpu}: unknown (roofline, uncalibrated)\n  nodes: {one.nodes}, "
            f"replicas: {one.replicas} of TP{one.tp}{span}; at best TTFT p95 {one.values['ttft_s_p95']:g} s, "
            f"TPOT p95 {one.values['tpot_ms_p95']:g} ms, {one.values['tokens_per_s']:g} tokens/s"
        )
        if span:
            click.echo("  the weights do not fit one node; what the fabric between nodes costs is not in it")
        for quantity, known in one.error.items():
            if isinstance(known, dict):
                click.echo(
                    f"  such a bound missed {quantity} by {known['median_error']:.0%} in the median of "
                    f"{known['n']} cells of the node study (worst {known['worst_error']:.0%})"
                )


_SHOWN = {"heap_bytes": "{0}={1:,}", "kv_pool_bytes": "{0}={1:,}"}


def _show_others(data: dict[str, Any], keys: list[str]) -> None:
    shown = [one["shape"] for one in data["surer"]]
    if (other := data["runner_up"]) and other["shape"] not in shown:
        click.echo(f"  runner-up: {other['nodes']} nodes, {other['shape']}: {_times(other, keys)}")
    for trial in data["untested"]:
        changed = ", ".join(
            _SHOWN.get(name, "{0}={1}").format(name, trial[name]) for name in trial["untested"]
        )
        click.echo(f"  with {changed} (no published run has it so): {_times(trial, keys)}")
    if others := [one for one in data["other_layouts"] if one["speed"] == "unknown"]:
        shapes = ", ".join(sorted({f"TP{one['tp']} DP{one['dp']}" for one in others}))
        click.echo(f"  other layouts of a pool that memory allows, speed unknown: {shapes}")
    for swing in data["sensitivity"][:3]:
        quantity, percentile = keys[0].rsplit("_", 1)
        unit = next(unit for known, _, unit in METRICS.values() if known == quantity)
        least, most = swing[f"{keys[0]}_range"]
        metric = f"{quantity.split('_')[0].upper()} {percentile}"
        click.echo(f"  {swing['words']}: {metric} {least:g} to {most:g} {unit}")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("artifacts", nargs=-1, required=True)
@click.option("--platform", required=True, help="The simulated platform to start from: mi300x, mi325x.")
@click.option("--write", type=click.Path(path_type=Path), help="File for the constants: `size --constants`.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def calibrate(artifacts: tuple[str, ...], platform: str, write: Path | None, as_json: bool) -> None:
    """Fit the twin to your own runs (name@subject or seal) and report how far the error fell: every other
    wave is fitted, the rest is held out.

    \b
    Example:
      k3repro capacity calibrate --platform mi300x osl-sweep@http://router:30000 --write mine.json
    """
    store = Store()
    found = fit(platform, observations([store.find(name) for name in artifacts]))
    data = found.as_dict()
    if write is not None:
        try:
            write.write_text(json.dumps(data, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        except OSError as error:
            raise UsageError(f"cannot write {write.name}: {error.strerror}") from None
    if as_json:
        emit(data)
        return
    for label, index in (("fitted to", 0), ("held out", 1)):
        count = len(found.fitted if index == 0 else found.held_out)
        click.echo(
            f"median error of {count} waves {label}: {found.before[index]:.1%} before, "
            f"{found.after[index]:.1%} after"
        )
    for name, value in found.constants.items():
        click.echo(f"  {name} = {value}")
