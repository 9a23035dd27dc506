"""The `k3repro` command. Sub-commands are imported when called, so that start-up stays fast."""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
import warnings
from typing import Any

import click

from k3repro import __version__
from k3repro.errors import K3Error, MachineError, MissingExtra, UsageError
from k3repro.registry import entries, load

# name -> (module:attribute, one line for --help)
COMMANDS: dict[str, tuple[str, str]] = {
    "artifacts": ("k3repro.cli.artifacts:artifacts", "List, show, query, export and retract artifacts."),
    "audit": ("k3repro.cli.audit:audit", "Check artifacts, a built site or a ledger of claims."),
    "bringup": ("k3repro.cli.bringup:bringup", "Plan, start, watch and stop a serve on a cluster."),
    "budget": ("k3repro.cli.budget:budget", "Bytes per component and per GPU, from safetensors headers."),
    "capacity": ("k3repro.cli.capacity:capacity", "Concurrency, latency, nodes and cost from the laws."),
    "completion": ("k3repro.cli.completion:completion", "Print the completion script of a shell."),
    "demo": ("k3repro.cli.demo:demo", "The two-minute tour, on this machine."),
    "doctor": ("k3repro.cli.doctor:doctor", "Look at all nodes of a cluster before a bring-up."),
    "lab": ("k3repro.cli.run:lab", "Open the notebooks in JupyterLab."),
    "probe": ("k3repro.cli.probe:probe", "Run one probe against a target and seal its artifact."),
    "requant": ("k3repro.cli.requant:requant", "Convert an MXFP4 checkpoint to int4, shard by shard."),
    "run": ("k3repro.cli.run:run", "Run a pipeline: notebooks in, sealed artifacts out."),
    "selftest": ("k3repro.cli.selftest:selftest", "Measure the client against a zero-delay server."),
    "serve": ("k3repro.cli.serve:serve", "Records of serves: adopt a running one by its URL, show them."),
    "site": ("k3repro.cli.site:site", "Build and serve the static report."),
    "twin": ("k3repro.cli.twin:twin", "Serve the simulated cluster over HTTP."),
}


INTERRUPTED = 130


class LazyGroup(click.Group):
    """A group whose commands are imported when called: those of `table` (as COMMANDS), and what a package
    registers as `k3repro.commands` under the name `GROUP.COMMAND`.
    """

    def __init__(self, *args: Any, table: dict[str, tuple[str, str]] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.table = table or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        prefix = f"{self.name}."
        added = [name.removeprefix(prefix) for name in entries("k3repro.commands") if name.startswith(prefix)]
        return sorted({*self.table, *added})

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        command: click.Command | None = None
        if name in self.table:
            module, _, attribute = self.table[name][0].partition(":")
            command = getattr(importlib.import_module(module), attribute)
        elif f"{self.name}.{name}" in entries("k3repro.commands"):
            command = load("k3repro.commands", f"{self.name}.{name}")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, self._about(ctx, name)) for name in self.list_commands(ctx)])

    def _about(self, ctx: click.Context, name: str) -> str:
        if name in self.table:
            return self.table[name][1]
        command = self.get_command(ctx, name)
        return command.get_short_help_str(limit=80) if command else ""


@click.group(cls=LazyGroup, table=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def root() -> None:
    """Reproducible LLM-serving studies: every number has an artifact."""


def main(argv: list[str] | None = None) -> None:
    """Run the command line; an error is one line on stderr and its exit code, never a traceback.

    $K3REPRO_TRACEBACK=1 lets the traceback of an error that nobody foresaw through.
    """
    arguments = sys.argv[1:] if argv is None else argv
    warnings.showwarning = _warn
    as_json = "--json" in arguments
    try:
        _refuse_empty(arguments)
        code = root.main(args=arguments, prog_name="k3repro", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        sys.exit(error.exit_code)
    except click.ClickException as error:
        report(_of_click(error), as_json=as_json)
        sys.exit(error.exit_code)
    except click.Abort:
        click.echo("k3repro: interrupted", err=True)
        sys.exit(INTERRUPTED)
    except Exception as error:
        if not isinstance(error, K3Error) and os.environ.get("K3REPRO_TRACEBACK"):
            raise
        shown = _as_k3(error)
        report(shown, as_json=as_json)
        sys.exit(shown.exit_code)
    sys.exit(code if isinstance(code, int) else 0)


def _of_click(error: click.ClickException) -> UsageError:
    """What click says of an argument, as every other error is said."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    command = context.command_path if context else "k3repro"
    said = " ".join(error.format_message().split()).rstrip(".")
    return UsageError(said, fix=f"See {command} --help.")


def _refuse_empty(arguments: list[str]) -> None:
    """An option or argument without text is a shell variable that was not set, never intended."""
    for before, given in zip(["", *arguments], arguments, strict=False):
        if not given or (given.startswith("--") and given.endswith("=")):
            name = given.rstrip("=") or (before if before.startswith("-") else "an argument")
            raise UsageError(f"{name} is empty", fix="Give it a value, or leave it out.")


def _as_k3(error: Exception) -> K3Error:
    """The error as one that has an exit code; a defect of ours says how to report it."""
    if isinstance(error, K3Error):
        return error
    if isinstance(error, ModuleNotFoundError) and (extra := _extra_of(error.name or "")):
        fix = f"pip install 'k3repro[{extra}]'"
        return MissingExtra(f"{error.name} is not installed", where=f"extra {extra}", fix=fix)
    if isinstance(error, OSError):
        return MachineError(
            error.strerror or str(error), where=str(error.filename or ""), fix="Check the path."
        )
    if isinstance(error, ValueError) and "null byte" in str(error):
        return UsageError("a path holds a NUL character", fix="Give a path.")
    said = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    fix = "This is a defect: report it with what K3REPRO_TRACEBACK=1 prints."
    return MachineError(f"unforeseen {said}", fix=fix)


# Modules whose distribution has another name, or that come with one of an extra.
_DISTRIBUTIONS = {
    "bs4": "beautifulsoup4", "markdown_it": "markdown-it-py", "vl_convert": "vl-convert-python",
    "yaml": "pyyaml", "zmq": "pyzmq", "IPython": "ipykernel", "material": "mkdocs-material",
    "mdit_py_plugins": "mdit-py-plugins",
}  # fmt: skip


def _extra_of(module: str) -> str:
    """The extra of this package that a missing module belongs to; empty when none does."""
    import importlib.metadata

    top = module.partition(".")[0]
    wanted = _DISTRIBUTIONS.get(top, top).lower()
    for requirement in importlib.metadata.requires("k3repro") or ():
        name, _, marker = requirement.partition(";")
        extra = re.search(r"extra == ['\"](\w+)['\"]", marker)
        if extra and re.match(r"[A-Za-z0-9._-]+", name.strip())[0].lower() == wanted:  # type: ignore[index]
            return extra[1]
    return ""


def _warn(message: Warning | str, *_: object, **__: object) -> None:
    click.echo(f"k3repro: warning: {message}", err=True)


def report(error: K3Error, *, as_json: bool) -> None:
    """Print an error: one line for people on stderr, one JSON object for programs on stdout."""
    if as_json:
        _as_object(error)
    click.echo(f"k3repro: {error}".encode(errors="backslashreplace"), err=True)


def _as_object(error: K3Error) -> None:
    click.echo(json.dumps(error.as_dict(), sort_keys=True))


def emit(value: Any) -> None:
    """Print `value` as the JSON that `--json` promises: sorted keys, no NaN."""
    click.echo(json.dumps(value, sort_keys=True, indent=2, allow_nan=False, default=str))
