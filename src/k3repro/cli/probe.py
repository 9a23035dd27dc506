"""`k3repro probe NAME --target T`: run one probe and seal its artifact; one sub-command per probe."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_type_hints

import click

from k3repro.cli import emit
from k3repro.errors import UsageError
from k3repro.probes import PROBES, Silent, choose, estimate_probe, run_probe
from k3repro.store import Artifact, Store
from k3repro.units import parse_tokens, thousands

_EXAMPLES = {
    "needle-gate": (
        "--target twin:mi325x",
        "--target twin:mi325x --max-rate 1%",
        "--context 6K --concurrency 8",
    ),
    "latency": ("--target twin:mi325x", "--requests 500 --concurrency 64,128"),
    "self-consistency": (
        "--target http://127.0.0.1:8000",
        "--target http://router:30000 --direct http://engine:8000 --prompts 8 --concurrency 4,8",
        "--target http://router:30000 --prefill http://p:8000 --decode http://d:8000 --concurrency 4",
    ),
    "osl-sweep": ("--target twin:mi325x", "--osl 16,32,64,128,256 --repeats 3"),
    "envelope": ("--target twin:mi325x --estimate", "--target http://router:30000 --concurrency 1,8,64"),
}
_HELP = {
    "prompts": "Different prompts, each answered once per wave.",
    "batch": "Rule at higher concurrency: exact (batch-invariant engine) or near-tie.",
    "direct": "URL of an engine to ask without the router, with the same prompts.",
    "prefill": "URL of the prefill engine of a pair: adds the swap test; needs --decode.",
    "decode": "URL of its decode engine, whose transfer counters are read around every wave.",
    "state_bytes": "Bytes of recurrent state and convolution that one request transfers; 0: not known.",
    "block_bytes": "Bytes of one attention block that a request transfers; 0: not known.",
    "block_tokens": "Tokens of one attention block; 0: not known.",
    "max_margin": "Widest top-2 margin, in nats, at which a parting is a near tie.",
    "max_dlp": "Largest log-probability difference, in nats, that rounding explains.",
    "isl": "Input tokens of each request (1024, 50K).",
    "osl": "Output tokens of each request; a comma list where the probe sweeps it.",
    "requests": "At least so many requests per concurrency (500 carry a p99).",
    "repeats": "Repeats of each output length.",
    "concurrency": "Requests in flight, one rung each: 1,8,64.",
    "waves": "Waves per rung.",
    "context": "Prompt tokens of each needle request (50K).",
    "max_tokens": "Token cap of a reply.",
    "max_rate": "Failure rate the gate has to rule out at 95 % (1%); asks for as many needles as that takes.",
    "timeout_s": "Seconds before one request counts as a timeout.",
}


class _Whole(click.ParamType[int]):
    name = "tokens"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value if isinstance(value, int) else parse_tokens(value)


class _List(click.ParamType[tuple[int, ...]]):
    name = "list"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value if isinstance(value, tuple) else tuple(parse_tokens(part) for part in value.split(","))


class _Share(click.ParamType[float]):
    name = "rate"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, float):
            return value
        try:
            return float(value.rstrip(" %")) / 100 if value.endswith("%") else float(value)
        except ValueError:
            raise UsageError(f"{value!r} is not a number", fix="Write it like 1% or 0.01.") from None


_TYPES: dict[Any, click.ParamType[Any]] = {
    int: _Whole(),
    tuple[int, ...]: _List(),
    float: _Share(),
    str: click.STRING,
}


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
    unsafe, seed, model = (options.pop(key) for key in ("unsafe", "seed", "model"))
    if estimate:
        plan = estimate_probe(name, **options)
        emit(plan) if as_json else _print_estimate(plan)
        return
    if not target:
        fix = "Give --target twin:mi325x or a router URL, or set K3REPRO_TARGET."
        raise UsageError("no target", where=f"probe {name}", fix=fix)
    progress = Silent() if as_json else choose()
    artifact = run_probe(
        name, target=target, store=Store(root), seed=seed, unsafe=unsafe, model=model,
        progress=progress, **options,
    )  # fmt: skip
    emit(_summary(artifact)) if as_json else _print(artifact)
    if not artifact.verdict["ok"]:
        sys.exit(1)


def _summary(artifact: Artifact) -> dict[str, Any]:
    fields = ("seal", "data", "name", "subject", "tier", "run_id", "clock", "verdict", "parameters")
    summary = {field: getattr(artifact, field) for field in fields}
    return summary | {"serve": artifact.serve.get("id"), "rungs": artifact.rows("rungs")}


def _print(artifact: Artifact) -> None:
    verdict = artifact.verdict
    click.echo(f"{artifact.name}@{artifact.subject}  {artifact.tier}  seal {artifact.seal[:12]}")
    click.echo(verdict.get("power", "") or ("valid" if verdict["ok"] else "NOT valid"))
    for reason in verdict["reasons"]:
        click.echo(f"  {reason}")


_TOTALS = ("requests", "prompt_tokens", "output_tokens", "resident_tokens")


def _print_estimate(plan: dict[str, Any]) -> None:
    click.echo(
        f"{'rung':<22}{'in flight':>10}" + "".join(f"{name.replace('_', ' '):>17}" for name in _TOTALS)
    )
    for row in [*plan["rungs"], {"rung": "all", "concurrency": "", **plan["total"]}]:
        counts = "".join(f"{thousands(row[name]):>17}" for name in _TOTALS)
        click.echo(f"{row['rung']:<22}{row['concurrency']:>10}{counts}")
    click.echo(
        "Prompt tokens are targets, output tokens caps; resident tokens are what the KV pool has to hold."
    )


def _command(name: str) -> click.Command:
    module = PROBES[name]
    hints = get_type_hints(module.Parameters)
    options: list[Callable[[Any], Any]] = [
        click.option(
            f"--{field.name.replace('_', '-')}",
            metavar="SECONDS" if field.name.endswith("_s") else None,
            type=_TYPES[hints[field.name]],
            default=field.default,
            show_default=_shown(field.default),
            help=_HELP[field.name],
        )
        for field in dataclasses.fields(module.Parameters)
    ]
    options += [
        click.option("--target", envvar="K3REPRO_TARGET", help="twin:PLATFORM or a URL; $K3REPRO_TARGET."),
        click.option("--model", help="Name of the model, where the target does not tell it (a P/D router)."),
        click.option(
            "--seed", type=int, default=0, show_default=True, help="Seed of prompts and of the twin."
        ),
        click.option("--estimate", is_flag=True, help="Print what would be sent, send nothing."),
        click.option("--unsafe", is_flag=True, help="Measure without a passing gate; taints the artifact."),
        click.option("--json", "as_json", is_flag=True, help="Print JSON."),
        click.option("--artifacts", "root", type=click.Path(path_type=Path), help="Artifact store to use."),
    ]

    def callback(**values: Any) -> None:
        _run(name, **values)

    for option in reversed(options):
        callback = option(callback)
    doc = (module.__doc__ or "").strip()
    lines = [f"  k3repro probe {name} {example}" for example in _EXAMPLES[name]]
    text = "\n".join([doc, "", "\b", "Examples:", *lines])
    short = doc.splitlines()[0].partition(": ")[2]
    return click.command(name, help=text, short_help=short[:1].upper() + short[1:])(callback)


def _shown(default: Any) -> str:
    return ",".join(map(str, default)) if isinstance(default, tuple) else str(default)


for _name in sorted(PROBES):
    probe.add_command(_command(_name))
