"""`k3repro probe harness run|ingest`: another harness on the same serve, and its records in our tables."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from k3repro.cli import emit
from k3repro.probes.agentic import command, drive, ingest
from k3repro.store import Artifact, Store


@click.group()
def harness() -> None:
    """Replay with aiperf or the AgentX harness in an environment of its own, and ingest what it recorded.

    \b
    Examples:
      k3repro probe harness run --environment ~/aiperf --url http://router:30000 --model kimi-k3 \\
        --corpus traces/ --output out/
      k3repro probe harness ingest out/ --target http://router:30000 --corpus small
    """


@harness.command()
@click.option(
    "--tool",
    default="aiperf",
    show_default=True,
    help="aiperf or agentx-harness; never both in one environment.",
)
@click.option(
    "--environment", type=click.Path(path_type=Path), required=True, help="Folder of its environment."
)
@click.option("--url", required=True, help="Router URL.")
@click.option("--model", required=True, help="Served model name.")
@click.option("--corpus", type=click.Path(path_type=Path), required=True, help="Folder of Weka traces.")
@click.option("--output", type=click.Path(path_type=Path), required=True, help="Folder for its records.")
@click.option("--concurrency", type=int, default=16, show_default=True, help="Sessions at once, one a user.")
@click.option("--window-s", type=float, default=900.0, show_default=True, help="Measurement window, seconds.")
@click.option(
    "--warmup-s",
    type=float,
    default=300.0,
    show_default=True,
    help="Cache warm-up before the window, seconds.",
)
@click.option("--tokenizer", default="", help="Folder of a tokenizer, for use without a network.")
@click.option("--print", "only_print", is_flag=True, help="Print the command line, run nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def run(
    tool: str, environment: Path, url: str, model: str, corpus: Path, output: Path, concurrency: int,
    window_s: float, warmup_s: float, tokenizer: str, only_print: bool, as_json: bool,
) -> None:  # fmt: skip
    """Run a harness; then ingest its output folder."""
    line = command(
        tool, environment=environment, url=url, model=model, corpus=corpus, output=output,
        concurrency=concurrency, window_s=window_s, warmup_s=warmup_s, tokenizer=tokenizer,
    )  # fmt: skip
    if not only_print:
        drive(line, timeout_s=window_s + warmup_s + 7200)
    following = f"k3repro probe harness ingest {output} --target {url} --corpus {corpus.name}"
    if as_json:
        emit({"command": line, "ran": not only_print, "next": following})
    else:
        click.echo(" ".join(line) if only_print else f"done; now: {following}")


@harness.command("ingest")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--corpus", required=True, help="Name of the corpus that was replayed.")
@click.option("--target", default="", help="Ask this serve who it is: the evidence for the artifact's tier.")
@click.option("--model", help="Served model name, where the target does not tell it.")
@click.option("--name", "name_as", default="", help="What artifacts call it; needed without a target.")
@click.option("--hardware", default="", help="What it ran on, as you say it: mi300x, cpu.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--artifacts", "root", type=click.Path(path_type=Path), help="Artifact store to use.")
def ingest_command(
    folder: Path, corpus: str, target: str, model: str | None, name_as: str, hardware: str, as_json: bool,
    root: Path | None,
) -> None:  # fmt: skip
    """Seal the records of a harness in the tables of our own replay. Exit code 1: it says it is not valid."""
    artifact = ingest(
        folder,
        store=Store(root),
        corpus=corpus,
        target=target,
        model=model,
        name_as=name_as,
        hardware=hardware,
    )
    emit(_summary(artifact)) if as_json else click.echo(_line(artifact))
    if not artifact.verdict["ok"]:
        sys.exit(1)


def _summary(artifact: Artifact) -> dict[str, object]:
    fields = ("seal", "name", "subject", "tier", "verdict")
    return {field: getattr(artifact, field) for field in fields} | {"replay": artifact.rows("replay")}


def _line(artifact: Artifact) -> str:
    row = artifact.rows("replay")[0]
    state = "valid" if artifact.verdict["ok"] else f"NOT valid: {'; '.join(artifact.verdict['reasons'])}"
    counts = f"{row['completed']} turns completed, {row['cut']} cut, {row['errors']} errors"
    return (
        f"{artifact.name}@{artifact.subject}  {artifact.tier}  seal {artifact.seal[:12]}\n{counts}; {state}"
    )
