"""`k3repro probe NAME --target T`: run one probe and seal its artifact; one sub-command per probe."""

from __future__ import annotations

import dataclasses
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, get_type_hints

import click

from k3repro.cli import emit
from k3repro.cli._harness import harness
from k3repro.cli._reach import carried, reach, reach_options
from k3repro.errors import UsageError
from k3repro.probes import (
    PAIRED,
    PROBES,
    TOKENS,
    Next,
    Silent,
    choose,
    estimate_probe,
    estimate_text,
    parse_slo,
    results,
    results_text,
    run_pair,
    run_probe,
    told_once,
    what_next,
)  # fmt: skip
from k3repro.store import Artifact, Store
from k3repro.units import parse_tokens
from k3repro.workload import parse_lengths

# What parameters of several probes mean; one that has its own says it in HELP of its module.
_HELP = {
    "prefill": "URL of the prefill engine of a pair: adds the swap test; needs --decode.",
    "isl": "Input tokens of each request: 1024, 50K, 512..2048, normal:1000,200, lognormal:1000,8000.",
    "osl": "Output tokens of each request, written alike; a comma list in a sweep; 0: probe default.",
    "rate": "Requests per second, one step each: an open loop instead of --concurrency.",
    "arrival": "Arrivals of the open loop: poisson, uniform or burst.",
    "burst": "Requests that arrive together with --arrival burst.",
    "duration_s": "How long requests arrive at each --rate.",
    "ramp_s": "Seconds over which the rate grows to --rate.",
    "warmup": "Requests before each step that do not count.",
    "dataset": "Requests from a file: ShareGPT-like JSON, CSV (isl, osl), Mooncake or Weka trace.",
    "prefix_tokens": "Leading tokens that requests of one group share (prefix caching).",
    "prefix_groups": "Groups of shared prefixes.",
    "natural": "Let replies end where the model ends them; output tokens are then a cap.",
    "max_seconds": "Start no step later than this after the first one (0: no limit).",
    "early_stop": "End the ladder when two steps in a row raise the output rate by no more than 5 %.",
    "requests": "Minimum requests per concurrency (500 carry a p99).",
    "repeats": "Repeats of each step.",
    "concurrency": "Requests in flight, one rung each: 1,8,64.",
    "waves": "Waves per rung.",
    "context": "Tokens of each request: prompt (needle-gate), prompt and reply (ladder, grid). 50K.",
    "max_tokens": "Token cap of a reply.",
    "form": "How a prompt ends: asked (a question), or primed (the start of the answer, for small models).",
    "experiment": "A named experiment, never a gate: repetitive-filler.",
    "shape": "Request shapes, comma list of [NAME:]ISL/OSL[@CONCURRENCY].",
    "platform": "Published layout behind a URL: mi300x, mi325x. The twin knows its own.",
    "pool_bytes": "KV pool per GPU in bytes, if not as published (0: as published).",
    "max_num_seqs": "In-flight sequences per DP rank, if not as published (0: as published).",
    "ratio": "Where in its trace a session starts, at random between these two.",
    "timeout_s": "Seconds before one request counts as a timeout.",
}


class _Option(click.ParamType[Any]):
    """A type whose errors name the option they belong to."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return self.read(value)
        except UsageError as error:
            where = error.where or (param.opts[0] if param else "")
            raise UsageError(error.what, where=where, fix=error.fix) from None

    def read(self, text: str) -> Any:
        """The value that `text` means; UsageError."""
        raise NotImplementedError


class _Whole(_Option):
    name = "tokens"

    def read(self, text: str) -> Any:
        return parse_tokens(text)


class _Count(_Option):
    name = "count"

    def read(self, text: str) -> Any:
        try:
            return parse_tokens(text)
        except UsageError:
            raise UsageError(f"{text!r} is not a count", fix="Write it like 16 or 1K.") from None


class _Counts(_Count):
    name = "list"

    def read(self, text: str) -> Any:
        return tuple(super(_Counts, self).read(part) for part in text.split(","))


class _List(_Option):
    name = "list"

    def read(self, text: str) -> Any:
        return tuple(parse_tokens(part) for part in text.split(","))


class _Length(_Option):
    name = "tokens"

    def read(self, text: str) -> Any:
        lengths = parse_lengths(text)
        return lengths.values[0] if lengths.kind == "fixed" else text


class _Share(_Option):
    name = "rate"

    def read(self, text: str) -> Any:
        try:
            return float(text.rstrip(" %")) / 100 if text.endswith("%") else float(text)
        except ValueError:
            raise UsageError(f"{text!r} is not a number", fix="Write it like 1% or 0.01.") from None


class _Texts(_Option):
    name = "list"

    def read(self, text: str) -> Any:
        return tuple(part.strip() for part in text.split(","))


class _Shares(_Option):
    name = "list"

    def read(self, text: str) -> Any:
        return tuple(_Share().read(part.strip()) for part in text.split(","))


_TYPES: dict[Any, Any] = {
    int: _Whole(), int | str: _Length(), tuple[int, ...]: _List(), float: _Share(), str: str,
    tuple[str, ...]: _Texts(), tuple[float, ...]: _Shares(), bool: bool,
}  # fmt: skip


@click.group()
def probe() -> None:
    """Run one probe against a target and seal its artifact.

    A target is a simulated cluster (twin:mi325x) or the URL of a router or engine. A performance probe needs
    a passing needle-gate of the same serve. Exit code 1: the verdict is not ok; the artifact is kept.

    \b
    Examples:
      k3repro probe needle-gate --target twin:mi325x
      k3repro probe envelope --target twin:mi325x --estimate
      k3repro probe osl-sweep --target http://127.0.0.1:30000 --osl 16,64,256 --json
    """


def _run(
    name: str, target: str | None, estimate: bool, as_json: bool, root: Path | None, **options: Any
) -> None:
    store = Store(root)
    words = carried(target or "TARGET", options) + (f" --artifacts {shlex.quote(str(root))}" if root else "")
    reach(options)
    slo = options.pop("slo", "")
    parse_slo(slo)
    control = {key: options.pop(key) for key in _CONTROL if key in options}
    control["name_as"] = options.pop("name_as", "")
    if estimate:
        planned = {"platform": options.pop("_platform")} if "_platform" in options else {}
        plan = estimate_probe(name, target=target or "", store=store, **planned, **options)
        emit(plan) if as_json else click.echo(estimate_text(plan))
        return
    options.pop("_platform", None)
    if not target:
        fix = "Give --target twin:mi325x or a router URL, or set K3REPRO_TARGET."
        raise UsageError("no target", where=f"probe {name}", fix=fix)
    progress = Silent() if as_json else choose(verdict=False)
    against, restarts = control.pop("against", None), control.pop("restarts", 1)
    if against:
        for key in ("confirm", "behind", "tokenizer"):
            control.pop(key)
        artifact = run_pair(
            name, target, against, store=store, restarts=restarts, progress=progress, **control, **options
        )
    else:
        artifact = run_probe(name, target=target, store=store, progress=progress, **control, **options)
    found, following = results(artifact, slo), what_next(artifact, store, words)
    if as_json:
        emit(_summary(artifact) | {"results": found, "next": [step.as_dict() for step in following]})
    else:
        timed = name in PROBES and PROBES[name].PERFORMANCE
        _print(artifact, results_text(found) if timed else [], following)
    if not artifact.verdict["ok"]:
        sys.exit(1)


_CONTROL = ("unsafe", "seed", "model", "confirm", "hardware", "behind", "tokenizer", "against", "restarts")


def _summary(artifact: Artifact) -> dict[str, Any]:
    fields = ("seal", "data", "name", "subject", "tier", "run_id", "clock", "verdict", "parameters")
    summary = {field: getattr(artifact, field) for field in fields}
    tables = [table for table in artifact.schema.tables if table.name in _SHOWN]
    return summary | {"serve": artifact.serve.get("id")} | {t.name: artifact.rows(t.name) for t in tables}


_SHOWN = ("rungs", "cells", "effect", "slots", "limits", "recall", "points", "replay")


def _print(artifact: Artifact, table: Sequence[str], following: Sequence[Next]) -> None:
    verdict = artifact.verdict
    if table:
        click.echo("\n".join([*table, ""]))
    click.echo(f"{artifact.name}@{artifact.subject}  {artifact.tier}  seal {artifact.seal[:12]}")
    state = "valid" if verdict["ok"] else "NOT valid"
    state += ", permanently tainted" if verdict.get("tainted") else ""
    click.echo("; ".join(filter(None, (state, verdict.get("power", "")))))
    for reason in told_once(verdict["reasons"]):
        click.echo(f"  {reason}")
    for key in _TOLD:
        if verdict.get(key) not in (None, "", {}):
            click.echo(f"  {key.replace('_', ' ')}: {_told(verdict[key])}")
    for step in following:
        click.echo(f"next: {step.command}   # {step.why}")


def _told(value: Any) -> str:
    """A value of the verdict for people: no Python notation."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {_told(entry)}" for key, entry in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return "not reached" if value is None else str(value)


_TOLD = (
    "stopped",
    "signature",
    "stops",
    "events",
    "late",
    "recalled_to",
    "knee",
    "knees",
    "cells",
    "standing",
    "serves",
)


def _command(name: str) -> click.Command:
    module = PROBES[name]
    hints = get_type_hints(module.Parameters)
    fields = dataclasses.fields(module.Parameters)
    options: list[Callable[[Any], Any]] = [
        click.option(
            f"--{field.name.replace('_', '-')}",
            is_flag=hints[field.name] is bool,
            metavar="SECONDS" if field.name.endswith(("_s", "_seconds")) else None,
            type=_type_of(field.name, hints[field.name]),
            default=field.default,
            show_default=field.default not in ("", ()),
            help={**_HELP, **getattr(PROBES[name], "HELP", {})}[field.name],
        )
        for field in fields
    ]
    options += [
        click.option("--target", envvar="K3REPRO_TARGET", help="twin:PLATFORM or a URL; $K3REPRO_TARGET."),
        click.option(
            "--behind",
            multiple=True,
            metavar="URL",
            help="Engine behind the router, asked who it is: a router shows no evidence itself. Repeat it.",
        ),
        click.option(
            "--seed", type=int, default=0, show_default=True, help="Seed of prompts and of the twin."
        ),
        click.option(
            "--estimate", is_flag=True, help="Print requests, tokens, minutes and KV per rung; send nothing."
        ),
        click.option(
            "--confirm",
            is_flag=True,
            help="Repeat the newest run of this probe on a fresh serve and say which limits it reproduces.",
        ),
        click.option("--unsafe", is_flag=True, help="Measure without a passing gate; taints the artifact."),
        click.option("--json", "as_json", is_flag=True, help="Print JSON."),
        click.option("--artifacts", "root", type=click.Path(path_type=Path), help="Artifact store to use."),
    ]

    if "platform" not in {field.name for field in fields}:
        text = "For --estimate: whose printed wall law stands behind a URL."
        options.append(click.option("--platform", "_platform", default="", help=text))
    if name in PAIRED:
        text = "A second serve to compare with: measures both sides and their difference."
        options.append(click.option("--against", metavar="TARGET", help=text))
        text = "Fresh serves a side, interleaved (with --against)."
        options.append(
            click.option("--restarts", type=int, default=PAIRED[name], show_default=True, help=text)
        )

    def callback(**values: Any) -> None:
        _run(name, **values)

    for option in reversed([*options, reach_options]):
        callback = option(callback)
    doc = (module.__doc__ or "").strip()
    lines = [f"  k3repro probe {name} {example}" for example in PROBES[name].EXAMPLES]
    text = "\n".join([doc, "", "\b", "Examples:", *lines])
    short = doc.partition("\n\n")[0].replace("\n", " ").partition(": ")[2]
    return click.command(name, help=text, short_help=short[:1].upper() + short[1:])(callback)


def _type_of(name: str, hint: Any) -> Any:
    """The type of an option; a whole number that counts no tokens is a count."""
    counts = {int: _Count(), tuple[int, ...]: _Counts()}
    return counts[hint] if hint in counts and name not in TOKENS else _TYPES[hint]


for _name in sorted(PROBES):
    probe.add_command(_command(_name))
probe.add_command(harness)
