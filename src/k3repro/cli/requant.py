"""`k3repro requant`: convert an MXFP4 checkpoint to int4."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from k3repro.cli import emit
from k3repro.mxfp4 import RULES, RequantPlan, estimate_requant, plan_requant, worthwhile_jobs
from k3repro.mxfp4 import requant as convert
from k3repro.units import format_decimal, thousands


@click.command()
@click.argument("source", metavar="SRC", type=click.Path(path_type=Path))
@click.argument("target", metavar="DST", type=click.Path(path_type=Path))
@click.option(
    "--rule",
    type=click.Choice(RULES),
    default="amax7",
    show_default=True,
    help="amax7 is what the serving stack does at load time, bit for bit; mse has the least squared error.",
)
@click.option(
    "--jobs",
    type=click.IntRange(1),
    help="Shards converted at once.  [default: one per usable core, fewer for small checkpoints]",
)
@click.option(
    "--error-blocks",
    type=click.IntRange(0),
    default=2048,
    show_default=True,
    help="Measure the error on up to this many evenly spaced blocks per tensor (0: none).",
)
@click.option("--dry-run", is_flag=True, help="Read headers only, print sizes, write nothing.")
@click.option(
    "--estimate",
    is_flag=True,
    help="As --dry-run, and convert a sample beside DST: time, cores and disk of the whole.",
)
@click.option(
    "--store", type=click.Path(path_type=Path), metavar="DIR", help="Also seal the report in this store."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON; no progress bar.")
def requant(
    source: Path,
    target: Path,
    rule: Any,
    jobs: int | None,
    error_blocks: int,
    dry_run: bool,
    estimate: bool,
    store: Path | None,
    as_json: bool,
) -> None:
    """Convert the MXFP4 tensors of a safetensors checkpoint to int4, shard by shard.

    Tensors in other formats are copied bit for bit. The result appears under DST only when it is complete and
    read back; until then it grows in DST.partial, where the same command continues after an interruption.

    \b
    k3repro requant Kimi-K3/ Kimi-K3-int4/
    k3repro requant Kimi-K3/ Kimi-K3-int4/ --rule mse --jobs 8
    k3repro requant Kimi-K3/ Kimi-K3-int4/ --dry-run --json
    k3repro requant Kimi-K3/ Kimi-K3-int4/ --estimate
    k3repro requant gpt-oss-20b/ out/ --rule mse --store artifacts/
    """
    plan = plan_requant(source, rule)
    jobs = jobs or worthwhile_jobs(plan)
    if dry_run or estimate:
        _show(
            {**_sizes(plan), **(estimate_requant(plan, target, jobs, error_blocks) if estimate else {})},
            as_json,
        )
        return
    report = _with_progress(plan, target, jobs, error_blocks, quiet=as_json)
    if store is not None:
        from k3repro.mxfp4.requant_record import seal_requant
        from k3repro.store import Store

        report = {**report, "artifact": seal_requant(Store(store), report, _subject(plan)).seal}
    if as_json:
        emit(report)
        return
    error = report["relative_rms"]
    told = "not measured" if error is None else f"{format_decimal(100 * error, 2)} %"
    bits = format_decimal(report["int4_bits_per_weight"] or 4.5, 2)
    click.echo(
        f"{target}: {thousands(report['converted_tensors'])} tensors,"
        f" {thousands(report['converted_weights'])} weights in {bits} bits each, relative RMS error {told};"
        f" {format_decimal(report['checkpoint_bytes'] / 1e9, 3)} GB, read back and equal"
    )


def _subject(plan: RequantPlan) -> str:
    """What the report is about: the architecture and the source's fingerprint, never a path."""
    model = json.loads((plan.source / "config.json").read_bytes()).get("model_type", "model")
    return f"checkpoint:{model}-{plan.fingerprint[:12]}"


def _sizes(plan: RequantPlan) -> dict[str, Any]:
    weights = sum(math.prod(step.shape) for step in plan.conversions)
    return {
        "rule": plan.rule,
        "shards": len(plan.shards),
        "converted_tensors": len(plan.conversions),
        "converted_weights": weights,
        "mxfp4_bytes": weights // 32 * 17,
        "int4_bytes": weights // 32 * 18,
        "checkpoint_bytes": plan.output_bytes,
    }


def _show(facts: dict[str, Any], as_json: bool) -> None:
    if as_json:
        emit(facts)
        return
    for name, value in facts.items():
        click.echo(f"{name:<18} {value if isinstance(value, str) else f'{value:,}'}")
    if "free_bytes" in facts and facts["free_bytes"] < facts["checkpoint_bytes"]:
        click.echo("The disk has no room for the result.", err=True)


def _with_progress(
    plan: RequantPlan, target: Path, jobs: int, error_blocks: int, *, quiet: bool
) -> dict[str, Any]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    hidden = quiet or not (console.is_terminal or os.environ.get("K3REPRO_PROGRESS"))
    with Progress(*columns, console=console, disable=hidden) as bar:
        task = bar.add_task(f"{plan.rule} -> uint4b8", total=plan.source_bytes)
        return convert(
            plan, target, jobs=jobs, error_blocks=error_blocks, progress=lambda n: bar.advance(task, n)
        )
