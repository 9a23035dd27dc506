"""`k3repro demo`: the two-minute tour, on this machine, without a GPU, a cluster or a network."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import click

from k3repro.cli import emit, root

# What is shown, the command that shows it, and the exit code that is right.
TOUR: tuple[tuple[str, tuple[str, ...], int], ...] = (
    ("Does the model fit, and where does every byte go?", ("budget", "--platform", "mi325x"), 0),
    ("How many requests of 200K tokens are resident at once, and what binds?",
     ("capacity", "nmax", "--platform", "mi325x", "--context", "200K"), 0),
    ("Do requests mix? The gate on a simulated cluster that is sound...",
     ("probe", "needle-gate", "--target", "twin:mi325x", "--context", "2K", "--concurrency", "1,8"), 0),
    ("...and on one with a race in its transport: it has to fail.",
     ("probe", "needle-gate", "--target", "twin:mi325x?defect=kv-write-race", "--context", "2K",
      "--concurrency", "1,8,16"), 1),
    ("What does a caller wait for?",
     ("probe", "latency", "--target", "twin:mi325x", "--concurrency", "8,32", "--requests", "64",
      "--osl", "64", "--slo", "ttft=3s,tpot=90ms"), 0),
    ("What is sealed now? Every number above has an artifact.", ("artifacts", "list"), 0),
)  # fmt: skip


@click.command()
@click.option("--keep", type=click.Path(path_type=Path), help="Keep the artifacts in this folder.")
@click.option("--json", "as_json", is_flag=True, help="Print the commands as JSON and run nothing.")
def demo(keep: Path | None, as_json: bool) -> None:
    """Take the two-minute tour: memory, capacity, a correctness gate that passes and one that fails, latency.

    Everything runs against the simulated cluster; numbers are labelled so.

    \b
    Examples:
      k3repro demo
      k3repro demo --keep demo-artifacts
    """
    lines = [f"k3repro {' '.join(_quoted(arguments))}" for _, arguments, _ in TOUR]
    if as_json:
        emit({"commands": lines})
        return
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="k3repro-demo-") as folder:
        store = keep or Path(folder)
        for (what, arguments, right), line in zip(TOUR, lines, strict=True):
            click.secho(f"\n# {what}\n$ {line}", bold=True)
            _run(arguments, store, right)
    click.secho(f"\nThat was {time.monotonic() - began:.0f} s. Now with a serve of your own:", bold=True)
    click.echo("k3repro run router --target http://YOUR-ROUTER:30000")


def _quoted(arguments: tuple[str, ...]) -> list[str]:
    return [f"'{text}'" if "?" in text else text for text in arguments]


def _run(arguments: tuple[str, ...], store: Path, right: int) -> None:
    """One command in this process; another exit code than the right one ends the tour with it."""
    extra = ["--artifacts", str(store)] if arguments[0] in ("probe", "artifacts") else []
    code: Any = 0
    try:
        code = root.main(args=[*arguments, *extra], prog_name="k3repro", standalone_mode=False)
    except SystemExit as ended:
        code = ended.code
    if (code or 0) != right:
        raise SystemExit(code or 1)
