"""`k3repro serve adopt|show`: make and show records of serves that somebody else started."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from k3repro.cli import emit
from k3repro.errors import ArtifactMissing, UsageError
from k3repro.probes import adopt as adopt_serve
from k3repro.probes import adopted
from k3repro.store import Artifact, Store


@click.group()
def serve() -> None:
    """Records of serves: what a running stack reports about itself.

    \b
    Examples:
      k3repro serve adopt --target http://router:30000
      k3repro serve show
    """


@serve.command()
@click.option("--target", envvar="K3REPRO_TARGET", help="Router URL or twin:PLATFORM; $K3REPRO_TARGET.")
@click.option(
    "--log", "logs", multiple=True, type=click.Path(path_type=Path), help="Engine or router log; repeatable."
)
@click.option("--model", help="Served model name, where /v1/models does not answer.")
@click.option(
    "--name", "name_as", default="", help="What artifacts call it [engine-version/model@hardware#mark]."
)
@click.option("--hardware", default="", help="What it runs on, as you say it: mi300x, cpu.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--artifacts", "root", type=click.Path(path_type=Path), help="Artifact store to use.")
def adopt(
    target: str | None,
    logs: tuple[Path, ...],
    model: str | None,
    name_as: str,
    hardware: str,
    as_json: bool,
    root: Path | None,
) -> None:
    """Make a serve record from a URL alone; what is not reported stays unknown.

    Exit code 1: the serve does not look healthy (the record is kept).

    \b
    Examples:
      k3repro serve adopt --target http://router:30000
      k3repro serve adopt --target http://router:30000 --log prefill.log --log decode.log --json
    """
    if not target:
        raise UsageError("no target", where="serve adopt", fix="Give --target http://router:30000.")
    record = adopt_serve(
        target, store=Store(root), logs=logs, model=model, name_as=name_as, hardware=hardware
    )
    emit(_as_dict(record)) if as_json else _print(record)
    if not record.verdict["ok"]:
        sys.exit(1)


@serve.command()
@click.argument("target", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--artifacts", "root", type=click.Path(path_type=Path), help="Artifact store to use.")
def show(target: str | None, as_json: bool, root: Path | None) -> None:
    """Show the serve records of this store, or the newest one of TARGET.

    \b
    Examples:
      k3repro serve show
      k3repro serve show http://router:30000 --json
    """
    records = adopted(Store(root), target or "")
    if target and not records:
        raise ArtifactMissing(
            "no serve record", where=target, fix="Make one: k3repro serve adopt --target ..."
        )
    chosen = records[-1:] if target else records
    if as_json:
        emit([_as_dict(record) for record in chosen])
        return
    for record in chosen:
        _print(record)
    if not chosen:
        click.echo("no serve records; make one: k3repro serve adopt --target http://router:30000")


def _as_dict(record: Artifact) -> dict[str, object]:
    facts = {row["fact"]: {"value": row["value"], "source": row["source"]} for row in record.rows("facts")}
    return {
        "seal": record.seal, "subject": record.subject, "tier": record.tier, "serve": record.serve["id"],
        "verdict": record.verdict, "facts": facts,
    }  # fmt: skip


def _print(record: Artifact) -> None:
    click.echo(f"{record.serve['id']}  {record.subject}  {record.tier}  seal {record.seal[:12]}")
    for row in record.rows("facts"):
        click.echo(f"  {row['fact']:<20} {row['value']:<28} {row['source']}")
    for reason in record.verdict["reasons"]:
        click.echo(f"  not healthy: {reason}")
    if record.tier == "unverified":
        shown = ", ".join(sorted({item["kind"] for item in record.serve["evidence"]})) or "none"
        click.echo(f"  unverified: measured takes two kinds of evidence of an engine, seen here: {shown}.")
        click.echo("  Give a log (--log engine.log), or ask an engine where its router hides /metrics.")
