"""`k3repro bringup`: plan, start, watch and stop a serve on a cluster."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from k3repro.bringup import (
    Plan,
    container_argv,
    hand_scripts,
    load_cluster,
    load_recipe,
    make_plan,
    router_argv,
    router_flags_of,
)
from k3repro.errors import UsageError

_CLUSTER = click.option(
    "--cluster",
    required=True,
    metavar="FILE",
    help="A cluster file, or the name of one in pipelines/clusters.",
)
_RECIPE = click.option("--recipe", default=None, help="Recipe name or file; the cluster's own when left out.")
_SET = click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE",
    help="Override a knob, for example layout.max_num_seqs=32; repeatable.",
)  # fmt: skip
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group()
def bringup() -> None:
    """Bring a serve up on four nodes, prove it, and take it down again (docs/bringup.md)."""


def settings_of(settings: tuple[str, ...]) -> dict[str, Any]:
    """Overrides from KEY=VALUE; the value is TOML-like JSON, or text when it is not."""
    found: dict[str, Any] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise UsageError(
                f"--set {setting!r} is not KEY=VALUE", fix="For example --set layout.max_num_seqs=32."
            )
        try:
            found[key.strip()] = json.loads(value)
        except ValueError:
            found[key.strip()] = value
    return found


def read_plan(
    cluster: str, recipe: str | None, settings: tuple[str, ...], help_file: str | None = None
) -> Plan:
    """The plan of a cluster file, with the overrides of the command line."""
    loaded = load_cluster(cluster)
    chosen = load_recipe(recipe or loaded.recipe).with_overrides(settings_of(settings))
    flags = router_flags_of(Path(help_file).read_text(encoding="utf-8")) if help_file else None
    return make_plan(chosen, loaded, router_flags=flags)


@bringup.command()
@_CLUSTER
@_RECIPE
@_SET
@click.option(
    "--router-help", type=click.Path(exists=True, dir_okay=False), default=None,
    help="Saved output of the router's --help; flags it lacks are substituted. Left out: the pinned fork.",
)  # fmt: skip
@click.option("--write", type=click.Path(file_okay=False), default=None,
              help="Write shell scripts, an sbatch file and a Dockerfile into this folder.")  # fmt: skip
@_JSON
def plan(
    cluster: str, recipe: str | None, settings: tuple[str, ...], router_help: str | None, write: str | None,
    as_json: bool,
) -> None:  # fmt: skip
    """Print the exact commands of a bring-up, in order. Nothing is run.

    \b
    Examples:
      k3repro bringup plan --cluster mi325x-thor2
      k3repro bringup plan --cluster my.toml --write plan/
      vllm-router --help > help.txt; k3repro bringup plan --cluster my.toml --router-help help.txt --json
    """
    made = read_plan(cluster, recipe, settings, router_help)
    if write is not None:
        _write(made, Path(write))
    if as_json:
        from k3repro.cli import emit

        emit(plan_document(made))
    else:
        _show(made)


def _write(made: Plan, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in hand_scripts(made).items():
        path = folder / name
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755 if name.endswith((".sh", ".sbatch")) else 0o644)
    click.echo(f"{len(hand_scripts(made))} files in {folder}", err=True)


def _command(made: Plan, role: str) -> tuple[str, ...]:
    launch = made.launch(role)
    if made.cluster.runtime == "process":
        return ("env", *(f"{name}={value}" for name, value in launch.env), *launch.engine)
    return container_argv(launch, made, f"SERVE:{role}")


def plan_document(made: Plan) -> dict[str, Any]:
    """The plan as `--json` prints it."""
    steps = [
        {"role": item.role, "node": item.node.host, "address": item.node.address, "log": item.log,
         "env": item.variables, "engine": list(item.engine), "command": list(_command(made, item.role))}
        for item in made.launches
    ]  # fmt: skip
    router = {"node": made.router.node.host, "url": made.router.url, "command": list(router_argv(made))}
    return {
        "recipe": made.recipe.name, "cluster": made.cluster.name, "digest": made.digest, "steps": steps,
        "router": router, "substitutions": [item.as_dict() for item in made.substitutions],
        "choices": [asdict(choice) for choice in made.recipe.choices],
    }  # fmt: skip


def _show(made: Plan) -> None:
    click.echo(f"# {made.recipe.title} on {made.cluster.name}: workers, masters, router. Plan {made.digest}")
    for number, launch in enumerate(made.launches, start=1):
        click.echo(f"\n# {number}. {launch.role} on {launch.node.host} ({launch.node.address})")
        click.echo(shlex.join(_command(made, launch.role)))
    click.echo(f"\n# 5. router on {made.router.node.host}, for clients {made.router.url}")
    click.echo(shlex.join(router_argv(made)))
    for item in made.substitutions:
        click.echo(f"# router: {item.flag} {item.value}: {item.action}")
    for choice in made.recipe.choices:
        click.echo(f"# choice: {choice.topic}: follows the {choice.follows}. {choice.why}")
