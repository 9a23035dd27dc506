"""`k3repro twin`: the simulated cluster as a server."""

from __future__ import annotations

import asyncio
import json
import math
import os
import signal
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from k3repro.cli._twin_log import LoggedCluster, open_log
from k3repro.errors import UsageError
from k3repro.twin import DEFECTS, Cluster, platform, platform_names, platform_sources, serve_http


@click.group()
def twin() -> None:
    """The simulated cluster. Its numbers are labelled simulated everywhere and never pass as measured."""


@twin.command()
@click.option("--platform", "name", required=True, help=f"One of {', '.join(platform_names())}.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", default=8000, show_default=True, type=click.IntRange(0, 65535), help="0 picks a free one."
)
@click.option("--time-scale", default=1.0, show_default=True, help="Simulated seconds per real second.")
@click.option("--seed", default=0, show_default=True, help="Seed of texts and of the jitter of step costs.")
@click.option(
    "--set", "settings", multiple=True, metavar="NAME=VALUE", help="Override a platform constant; repeatable."
)
@click.option(
    "--defect",
    "defects",
    multiple=True,
    metavar="NAME[=RATE]",
    help="Switch a defect on; repeatable. `k3repro twin defects` lists them.",
)
@click.option(
    "--log", type=click.Path(dir_okay=False, path_type=Path),
    help="Write one JSON line per request: id, counts, times of every token in simulated nanoseconds.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the address it listens on as one JSON line.")
def serve(
    name: str,
    host: str,
    port: int,
    time_scale: float,
    seed: int,
    settings: tuple[str, ...],
    defects: tuple[str, ...],
    log: Path | None,
    as_json: bool,
) -> None:
    """Serve an OpenAI-compatible API of a simulated 2P2D cluster until interrupted.

    \b
    Examples:
      k3repro twin serve --platform mi325x
      k3repro twin serve --platform mi300x --port 0 --time-scale 50 --set max_num_seqs=32
      k3repro twin serve --platform mi325x --log requests.jsonl
      k3repro twin serve --platform mi325x --defect kv-write-race=0.2 --defect clock-skew
      k3repro probe osl-sweep --target http://127.0.0.1:8000
    """
    if not (math.isfinite(time_scale) and time_scale > 0):
        raise UsageError(f"--time-scale is {time_scale}", fix="Give a positive number, for example 10.")
    switched = {"defect": ",".join(defects)} if defects else {}
    chosen = platform(name).with_overrides({**_pairs(settings), **switched})
    with ExitStack() as stack:
        cluster = (
            Cluster(chosen, seed)
            if log is None
            else LoggedCluster(chosen, seed, stack.enter_context(open_log(log)))
        )
        asyncio.run(_serve(cluster, host, port, time_scale, as_json))


def _pairs(settings: tuple[str, ...]) -> dict[str, str]:
    pairs = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise UsageError(f"--set {setting!r} is not NAME=VALUE", fix="For example --set max_num_seqs=32.")
        pairs[key.strip()] = value.strip()
    return pairs


async def _serve(cluster: Cluster, host: str, port: int, time_scale: float, as_json: bool) -> None:
    chosen, seed = cluster.platform, cluster.seed
    stop = asyncio.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    async with serve_http(cluster, host=host, port=port, time_scale=time_scale) as (driver, bound):
        url = f"http://{host}:{bound}"
        facts: dict[str, Any] = {"url": url, "platform": chosen.name, "seed": seed, "time_scale": time_scale}
        if as_json:
            click.echo(json.dumps({**facts, "tier": "simulated"}, sort_keys=True))
        else:
            speed = f"time x {time_scale:g}; Ctrl-C ends it"
            click.echo(f"simulated {chosen.name} ({chosen.slots} slots) on {url}, {speed}")
            if chosen.defect:
                click.echo(f"defects on: {chosen.defect}")
            for rule in getattr(chosen, "rules", ()):
                if rule.outcome == "substitutes":
                    click.echo(f"rule {rule.id}: {rule.what} {rule.fix}")
        await stop.wait()
    misses = driver.misses()
    if as_json:
        click.echo(json.dumps({"deadlines": misses.as_dict()}, sort_keys=True))
    else:
        click.echo(misses.sentence())


def _of_the_twin(flag: str, default: Any, text: str, name: str = "") -> Callable[[Any], Any]:
    """An option of the twin itself, which a script named vllm sets by its variable."""
    name = name or flag.strip("-").replace("-", "_")
    variable = f"K3REPRO_TWIN_{name.upper()}"
    return click.option(flag, name, default=default, show_default=True, envvar=variable, help=text)


_ENGINE_SETTINGS = {"allow_interspersed_args": False, "ignore_unknown_options": False}


@twin.command(context_settings=_ENGINE_SETTINGS)
@_of_the_twin("--platform", "mi325x", "Simulated GPU.")
@_of_the_twin("--time-scale", 1.0, "Simulated seconds per real second.")
@_of_the_twin(
    "--seed", 0, "Seed of texts and of the jitter of step costs; the same for every engine of a cluster."
)
@_of_the_twin(
    "--engine-version", "0.27", "vLLM version whose block rules and start-up lines are simulated.", "version"
)
@_of_the_twin("--ping-s", 2.0, "Seconds between two discovery pings.")
@_of_the_twin("--drain-s", 30.0, "Longest drain after SIGTERM.")
@_of_the_twin("--front-end-s", 300.0, "How long a headless worker waits for its master.")
@_of_the_twin("--load-s", 0.0, "Simulated seconds to load the model.")
@click.option(
    "--fail-requests", is_flag=True, envvar="K3REPRO_TWIN_FAIL_REQUESTS",
    help="Answer every generation with HTTP 500 and keep pinging.",
)  # fmt: skip
@click.option(
    "--set", "settings", multiple=True, metavar="NAME=VALUE", help="Override a platform constant; repeatable."
)
@click.option("--json", "as_json", is_flag=True, help="Print the resolved launch as JSON and exit.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="serve MODEL [OPTIONS OF vllm serve]")
def engine(command: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Play one role of a real launch: `k3repro twin engine serve ...` where the recipe says `vllm serve ...`.

    Takes every option of `vllm serve` and refuses what vLLM refuses. Options of the twin stand before `serve`
    or in K3REPRO_TWIN_* variables, so that a script named vllm can pass its arguments on. Needs
    k3repro[cluster].

    \b
    Examples:
      k3repro twin engine serve /model --served-model-name kimi-k3 --port 20005
      k3repro twin engine --platform mi300x --time-scale 20 serve /model --served-model-name kimi-k3 \\
        --data-parallel-size 8 --data-parallel-size-local 4 --data-parallel-start-rank 4 --headless
    """
    from k3repro.twin.engine import Options, read_launch, run_engine

    _pairs(options["settings"])
    launch, chosen = read_launch(command, os.environ), Options(**options)
    if as_json:
        click.echo(json.dumps(_launch_facts(launch), sort_keys=True))
        return
    sys.exit(run_engine(launch, chosen))


def _launch_facts(launch: Any) -> dict[str, Any]:
    facts = {
        name: getattr(launch, name) for name in ("model", "host", "port", "tp", "dp", "headless", "role")
    }
    return facts | {"lanes": list(launch.lanes), "tier": "simulated"}


@twin.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def defects(as_json: bool) -> None:
    """List the defects that can be switched on: rate, log line, metrics and symptom of each.

    \b
    Examples:
      k3repro twin defects
      k3repro probe needle-gate --target "twin:mi325x?defect=kv-write-race=0.2"
    """
    if as_json:
        table = {name: asdict(fault) for name, fault in DEFECTS.items()}
        click.echo(json.dumps(table, sort_keys=True, indent=2))
        return
    for name, fault in DEFECTS.items():
        click.echo(f"{name} (default {fault.default_ppm / 1e6:g})\n  {fault.cause}")
        for label, text in (("rate", fault.rate), ("log", fault.log), ("metrics", fault.metrics)):
            click.echo(f"  {label + ':':9}{text}")
        click.echo(f"  {'symptom:':9}{fault.symptom}")


@twin.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def platforms(as_json: bool) -> None:
    """List the simulated platforms, every constant with its source.

    \b
    Examples:
      k3repro twin platforms
      k3repro twin platforms --json
    """
    table = {
        name: {
            key: {"value": getattr(platform(name), key), "source": source}
            for key, source in platform_sources(name).items()
        }
        for name in platform_names()
    }
    if as_json:
        click.echo(json.dumps(table, sort_keys=True, indent=2))
        return
    for name, constants in table.items():
        click.echo(name)
        for key, entry in constants.items():
            click.echo(f"  {key:24} {entry['value']!s:>14}   {entry['source']}")
