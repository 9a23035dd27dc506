"""The `k3repro` command. Sub-commands are imported when called, so that start-up stays fast."""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any

import click

from k3repro import __version__
from k3repro.errors import K3Error

# name -> (module:attribute, one line for --help)
COMMANDS: dict[str, tuple[str, str]] = {
    "artifacts": ("k3repro.cli.artifacts:artifacts", "List, show, query, export and retract artifacts."),
    "audit": ("k3repro.cli.audit:audit", "Check artifacts, a built site or a ledger of claims."),
    "bringup": ("k3repro.cli.bringup:bringup", "Plan, start, watch and stop a serve on a cluster."),
    "budget": ("k3repro.cli.budget:budget", "Bytes per component and per GPU, from safetensors headers."),
    "capacity": ("k3repro.cli.capacity:capacity", "Concurrency, latency, nodes and cost from the laws."),
    "lab": ("k3repro.cli.run:lab", "Open the notebooks in JupyterLab."),
    "probe": ("k3repro.cli.probe:probe", "Run one probe against a target and seal its artifact."),
    "requant": ("k3repro.cli.requant:requant", "Convert an MXFP4 checkpoint to int4, shard by shard."),
    "run": ("k3repro.cli.run:run", "Run a pipeline: notebooks in, sealed artifacts out."),
    "selftest": ("k3repro.cli.selftest:selftest", "Measure the client against a zero-delay server."),
    "serve": ("k3repro.cli.serve:serve", "Records of serves: adopt a running one by its URL, show them."),
    "site": ("k3repro.cli.site:site", "Build and serve the static report."),
    "twin": ("k3repro.cli.twin:twin", "Serve the simulated cluster over HTTP."),
}


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][1]) for name in self.list_commands(ctx)])


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def root() -> None:
    """Reproducible LLM-serving studies: every number has an artifact."""


def main(argv: list[str] | None = None) -> None:
    """Run the command line; a K3Error is one line on stderr and its exit code, never a traceback."""
    arguments = sys.argv[1:] if argv is None else argv
    try:
        root.main(args=arguments, prog_name="k3repro", standalone_mode=True)
    except K3Error as error:
        report(error, as_json="--json" in arguments)
        sys.exit(error.exit_code)


def report(error: K3Error, *, as_json: bool) -> None:
    """Print an error: one line for people on stderr, one JSON object for programs on stdout."""
    if as_json:
        click.echo(json.dumps(error.as_dict(), sort_keys=True))
    click.echo(f"k3repro: {error}", err=True)


def emit(value: Any) -> None:
    """Print `value` as the JSON that `--json` promises: sorted keys, no NaN."""
    click.echo(json.dumps(value, sort_keys=True, indent=2, allow_nan=False, default=str))
