"""`k3repro capacity`: concurrency, latency, nodes and cost from the laws, each with its range and inputs."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from k3repro.capacity import (
    MOST_SECONDS,
    Law,
    NMax,
    block_law,
    check_startup,
    cost,
    discriminating_rungs,
    law_of,
    n_max,
)
from k3repro.capacity import handoff as hand_over
from k3repro.capacity.wall import published_wall
from k3repro.cli import emit
from k3repro.cli._launch import ChosenLaunch, Tokens, launch_options, need_pool, resolve
from k3repro.cli.size import calibrate, size
from k3repro.cli.tables import printer
from k3repro.errors import UsageError
from k3repro.serve.lines import parse_kv_lines
from k3repro.spec import layout_for, load_platform
from k3repro.store import Store
from k3repro.units import format_decimal, thousands

_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_MODEL = click.option(
    "--model", default="kimi-k3", show_default=True, help="Model, spec .toml or config.json."
)
_PLATFORM = click.option("--platform", required=True, help="mi300x, h200, b300, ... or a spec .toml.")
_CONTEXTS = (1280, 50_000, 100_000, 200_000, 300_000, 512_000)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def capacity() -> None:
    """What fits, what binds, how long it takes, what it costs. Never extrapolates.

    \b
    Examples:
      k3repro capacity nmax --platform mi300x --context 200K
      k3repro capacity grid --platform mi300x --discriminate
      k3repro capacity size --isl 200K --osl 512 --users 100 --ttft 300@p95
      k3repro capacity startup --platform mi300x decode.log
    """


@capacity.command()
@_MODEL
@_PLATFORM
@click.option("--context", type=Tokens(), required=True, help="Tokens resident per request: prompt + reply.")
@launch_options
@_JSON
def nmax(model: str, platform: str, context: int, as_json: bool, **given: Any) -> None:
    """Requests of one context that fit at once, by every law; the limit that binds, the next, and the knob.

    \b
    Examples:
      k3repro capacity nmax --platform mi300x --context 200K
      k3repro capacity nmax --platform mi325x --context 512K --prefix-caching --json
      k3repro capacity nmax --model deepseek-v3 --platform mi325x --context 32K --tp 8 --pool 60GB
    """
    launch = resolve(model, platform, **given)
    answer = _fits(launch, context)
    other = _other_mode(launch, context)
    refusals = launch.refusals(need_pool(launch))
    result = answer.as_dict() | {"launch": launch.as_dict(), "with_prefix_caching_changed": other}
    if as_json:
        emit(result | {"refusals": list(refusals)})
        return
    _show_nmax(launch, answer, other)
    for refusal in refusals:
        click.echo(f"the engine would not start: {refusal}")


def _fits(launch: ChosenLaunch, context: int) -> NMax:
    return n_max(
        launch.model, launch.engine, need_pool(launch), context,
        max_num_seqs=launch.max_num_seqs, max_model_len=launch.max_model_len,
    )  # fmt: skip


def _other_mode(launch: ChosenLaunch, context: int) -> dict[str, Any] | None:
    """The same pool with prefix caching the other way round, where that changes anything."""
    if not any(
        kind in ("kda", "gdn", "mamba2") for kinds in launch.model.layer_kinds for kind in kinds.split("+")
    ):
        return None
    flipped = not launch.engine.caches_prefixes
    if flipped and launch.engine.version < (0, 15, 0):
        return None
    engine = replace(launch.engine, prefix_caching=flipped)
    answer = n_max(launch.model, engine, need_pool(launch), context, max_num_seqs=launch.max_num_seqs)
    return {"prefix_caching": flipped, "mode": answer.law.mode, "n_max_block": answer.block}


def _show_nmax(launch: ChosenLaunch, answer: NMax, other: dict[str, Any] | None) -> None:
    pool = f"{thousands(need_pool(launch))} bytes per GPU"
    click.echo(f"{launch.model.name} on {launch.platform.title if launch.platform else '?'}, {pool}")
    click.echo(f"at {thousands(answer.context)} tokens, over {launch.engine.dp} DP ranks:")
    click.echo(
        f"  block law   {answer.block}   ({answer.pool_blocks} blocks, {answer.blocks_per_request} a request)"
    )
    by_pool = "says nothing: no layer grows with the context" if answer.pool is None else answer.pool
    click.echo(f"  pool law    {by_pool}   (bytes per token only: no state, no blocks)")
    click.echo(f"  slots       {'unknown' if answer.slots is None else answer.slots}")
    click.echo(
        f"effective {answer.effective}; {answer.binds} binds, next {answer.next or 'unknown'}. {answer.knob}"
    )
    if answer.max_request_tokens is not None:
        click.echo(f"longest single request {thousands(answer.max_request_tokens)} tokens")
    if other:
        state = "on" if other["prefix_caching"] else "off"
        click.echo(f"with prefix caching {state}: {other['n_max_block']} by the block law")
    for reason in answer.reasons:
        click.echo(f"note: {reason}")


@capacity.command()
@_MODEL
@_PLATFORM
@click.option("--prompt", type=Tokens(), required=True, help="Prompt tokens of the request.")
@click.option(
    "--link", type=float, default=0.0, help="Link speed of one rank in Gb/s, to print the transfer time."
)
@launch_options
@_JSON
def handoff(model: str, platform: str, prompt: int, link: float, as_json: bool, **given: Any) -> None:
    """Bytes one request hands from prefill to decode, by rank, where a connector moves whole regions.

    \b
    Examples:
      k3repro capacity handoff --platform mi325x --prompt 64K --link 400
      k3repro capacity handoff --platform mi300x --prompt 1K --json
    """
    launch = resolve(model, platform, **given)
    found = hand_over(block_law(launch.model, launch.engine), prompt)
    seconds = found.seconds(link / 8 * 1e9) if link else None
    if as_json:
        emit({**asdict(found), "bytes": found.bytes, "ranks": launch.engine.tp, "seconds": seconds})
        return
    ranks = f"on each of {launch.engine.tp} ranks"
    click.echo(f"{launch.model.name}, {thousands(prompt)} prompt tokens, {ranks}:")
    click.echo(f"  state   {found.state_pages} pages of {thousands(found.state_bytes)} bytes")
    click.echo(f"  blocks  {found.blocks} of {thousands(found.block_bytes)} bytes")
    click.echo(f"  in all  {thousands(found.bytes)} bytes")
    if seconds is not None:
        took = format_decimal(seconds * 1000, 1)
        click.echo(f"  {took} ms on a link of {link:g} Gb/s that carries nothing else")


@capacity.command()
@_MODEL
@_PLATFORM
@click.option(
    "--contexts", default=",".join(map(str, _CONTEXTS)), show_default=True, help="Comma list: 50K,200K."
)
@click.option("--discriminate", is_flag=True, help="Only the rungs at which the laws differ.")
@launch_options
@_JSON
def grid(model: str, platform: str, contexts: str, discriminate: bool, as_json: bool, **given: Any) -> None:
    """N_max over contexts by both laws, and the rungs at which one run on a cluster decides between them.

    \b
    Examples:
      k3repro capacity grid --platform mi325x
      k3repro capacity grid --platform mi300x --discriminate --json
    """
    launch = resolve(model, platform, **given)
    lengths = [Tokens().convert(part, None, None) for part in contexts.split(",")]
    rungs = discriminating_rungs(
        launch.model, launch.engine, need_pool(launch), lengths, max_num_seqs=launch.max_num_seqs
    )
    rows = [{name: getattr(rung, name) for name in rung.__slots__} for rung in rungs]
    if not discriminate:
        answers = [_fits(launch, length) for length in lengths]
        result: dict[str, Any] = {"rows": [a.as_dict() | {"terms": None} for a in answers], "rungs": rows}
    else:
        result = {"rungs": rows}
    if as_json:
        emit(result | {"launch": launch.as_dict()})
        return
    _show_grid(launch, lengths, rows, discriminate=discriminate)


def _show_grid(
    launch: ChosenLaunch, lengths: list[int], rungs: list[dict[str, Any]], *, discriminate: bool
) -> None:
    console = printer()
    if not discriminate:
        table = Table(title=f"{launch.model.name}, {launch.platform.title if launch.platform else ''}")
        for column in ("context", "block law", "pool law", "slots", "effective", "binds"):
            table.add_column(column, justify="right")
        for length in lengths:
            a = _fits(launch, length)
            table.add_row(
                thousands(length),
                str(a.block),
                "-" if a.pool is None else str(a.pool),
                str(a.slots or "?"),
                str(a.effective),
                a.binds,
            )
        console.print(table)
    for rung in rungs:
        hidden = "" if rung["reachable"] else " (slots hide it: raise max_num_seqs)"
        console.print(
            f"{thousands(rung['context'])} tokens at {rung['low']} to {rung['high']} in flight: at the top "
            f"{rung['waiting_block']} wait by the block law, {rung['waiting_pool']} by the pool law{hidden}",
            markup=False,
            highlight=False,
        )


@capacity.command()
@_PLATFORM
@click.option("--osl", type=Tokens(), help="Output tokens of the request.")
@click.option("--isl", type=Tokens(), default=1024, show_default=True, help="Input tokens.")
@click.option("--concurrency", type=int, default=1, show_default=True, help="Requests in flight.")
@click.option("--budget", "budget_s", type=float, help="Seconds allowed: prints the longest reply instead.")
@click.option(
    "--law", "law_name", help="A wall-law artifact, for example wall-law@twin:mi325x. Default: as published."
)
@_JSON
def wall(
    platform: str, osl: int | None, isl: int, concurrency: int, budget_s: float | None, law_name: str | None,
    as_json: bool,
) -> None:  # fmt: skip
    """Seconds of one request by the wall law, inside its fit only; outside it is not modelled (exit 1).

    \b
    Examples:
      k3repro capacity wall --platform mi325x --osl 256
      k3repro capacity wall --platform mi300x --budget 10
      k3repro capacity wall --platform mi325x --osl 128 --law wall-law@twin:mi325x
    """
    if min(isl, concurrency, 1 if osl is None else osl) < 1:
        raise UsageError("--osl, --isl and --concurrency are at least 1")
    law = _wall_law(platform, law_name)
    if law is None:
        raise UsageError(f"no wall law is published for {platform}", fix="Name a fit: --law wall-law@TARGET.")
    if (osl is None) == (budget_s is None):
        raise UsageError("give either --osl or --budget")
    if budget_s is not None:
        osl = _longest_reply(law, budget_s)
    asked = {"osl": float(osl or 0), "isl": float(isl), "concurrency": float(concurrency)}
    outside = law.outside(asked)
    seconds = None if outside else law(**asked)
    result = {
        "wall_s": seconds, "osl": osl, "isl": isl, "concurrency": concurrency,
        "outside": outside, "law": law.as_dict(),
    }  # fmt: skip
    if as_json:
        emit(result)
    elif seconds is None:
        click.echo("not modelled: " + "; ".join(outside))
    else:
        click.echo(
            f"{format_decimal(seconds, 2)} s for {osl} output tokens after {isl} input tokens, one request"
        )
        click.echo(f"law: {json.dumps(law.as_dict()['formula'])} s; {law.inputs.get('source', '')}")
    if outside:
        sys.exit(1)


def _longest_reply(law: Law, budget_s: float) -> int:
    if not 0 < budget_s <= MOST_SECONDS:
        raise UsageError(f"a latency budget is a positive number of seconds, not {budget_s:g}")
    low, high = (int(bound) for bound in law.range["osl"])
    fixed = {name: bounds[0] for name, bounds in law.range.items() if name != "osl"}
    best = 0
    while low <= high:
        middle = (low + high) // 2
        if law(osl=middle, **fixed) <= budget_s:
            best, low = middle, middle + 1
        else:
            high = middle - 1
    if not best:
        least = law(osl=int(law.range["osl"][0]), **fixed)
        raise UsageError(
            f"the law is calibrated from {law.range['osl'][0]:g} output tokens on, which take {least:.2f} s",
            fix=f"Allow more than {budget_s:g} s.",
        )
    return best


def _wall_law(platform: str, name: str | None) -> Law | None:
    """A fitted law from an artifact, or the published constants with the shape they were fitted at."""
    if name is not None:
        artifact = Store().find(name)
        rows = [row for row in artifact.rows("fit") if row["selection"] == "all"]
        wanted = load_platform(platform).name
        row = next((row for row in rows if row["platform"] == wanted), None)
        if row is None:
            raise UsageError(f"{name} holds no fit for {platform}")
        law = law_of(json.loads(row["law"]))
        return Law(
            law.name, law.formula, law.unit, {**law.inputs, "artifact": artifact.seal, "tier": artifact.tier},
            {**law.range, "isl": (1024, 1024), "concurrency": (1, 1)}, law.error,
        )  # fmt: skip
    layout = layout_for("kimi-k3", load_platform(platform).name)
    return published_wall(layout) if layout else None


@capacity.command(name="cost")
@click.option("--nodes", type=int, required=True, help="Nodes paid for, both pools together.")
@click.option("--price", type=float, required=True, help="US dollars per node-hour.")
@click.option("--out-rate", type=float, help="Output tokens per second of all nodes.")
@click.option("--total-rate", type=float, help="Input and output tokens per second.")
@_JSON
def cost_command(
    nodes: int, price: float, out_rate: float | None, total_rate: float | None, as_json: bool
) -> None:
    """Dollars per million tokens; output, input and total kept apart, because they differ by several times.

    \b
    Example:
      k3repro capacity cost --nodes 4 --price 16 --out-rate 454 --total-rate 2272
    """
    answer = cost(nodes, price, out_rate, total_rate)
    if as_json:
        emit(answer)
        return
    click.echo(f"{format_decimal(answer['usd_per_hour'], 2)} $/hour for {nodes} nodes")
    for kind in ("output", "input", "total"):
        value = answer.get(f"usd_per_million_{kind}")
        if value is not None:
            click.echo(
                f"  {format_decimal(value, 2)} $ per million {kind} tokens, if they carry the whole bill"
            )


@capacity.command()
@_MODEL
@_PLATFORM
@click.argument("log", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@launch_options
@_JSON
def startup(model: str, platform: str, log: Path, as_json: bool, **given: Any) -> None:
    """Compare an engine's start-up lines with the block law: which pools explain them (exit 1 if none does).

    \b
    Example:
      k3repro capacity startup --platform mi300x vllm_decode_master.log
    """
    launch = resolve(model, platform, **given)
    law = block_law(launch.model, launch.engine)
    lines = parse_kv_lines(log.read_text(encoding="utf-8", errors="replace").splitlines())
    if not lines:
        raise UsageError(
            "no KV cache line in it", where=log.name, fix="Give the log of an engine, headless ones too."
        )
    checks = []
    for line in lines:
        length = line.max_model_len or launch.max_model_len
        if length is None:
            raise UsageError("max_model_len is neither printed nor given", fix="Add --max-model-len.")
        check = check_startup(
            law, tokens=line.tokens, max_model_len=length, concurrency=line.concurrency, kv_bytes=launch.pool
        )
        checks.append({name: getattr(check, name) for name in check.__slots__} | {"max_model_len": length})
    if as_json:
        emit({"ranks": checks, "launch": launch.as_dict()})
    else:
        for rank, check_row in enumerate(checks):
            verdict = "explained" if check_row["agrees"] else "; ".join(check_row["reasons"])
            click.echo(f"rank {rank}: {thousands(check_row['printed_tokens'])} tokens printed, {verdict}")
    if not all(check_row["agrees"] for check_row in checks):
        sys.exit(1)


capacity.add_command(size)
capacity.add_command(calibrate)
