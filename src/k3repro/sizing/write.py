"""An answer as files: a recipe and overrides that `bringup plan` accepts, and a pipeline to measure it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from k3repro.errors import UsageError
from k3repro.sizing._answer import Answer
from k3repro.sizing._candidate import Candidate, published
from k3repro.sizing._goals import Goal
from k3repro.workload import Workload

__all__ = ["write_plan"]

_LAYOUT = ("max_num_seqs", "kv_pool_bytes", "heap_bytes", "max_num_batched_tokens")
"""Settings that are fields of a layout, changed by `bringup plan --set layout.NAME=VALUE`."""


def write_plan(
    answer: Answer, workload: Workload, goals: Sequence[Goal], folder: Path, recipes: Path
) -> list[Path]:
    """Write the surest deployment as recipe.toml (and what it extends), plan.sh, sized.toml and measure.ipynb
    into `folder`; `recipes` has the published ones.

    The recipe describes one prefill and one decode pool; plan.sh says how many of each there are.

    Raises:
        UsageError: nothing to write, the folder cannot be written, or no recipe is found.
    """
    if not answer.picks:
        raise UsageError("no deployment keeps these goals, so there is nothing to write")
    pick = answer.picks[-1]
    chosen = pick.trial.candidate
    base = recipes / f"kimi-k3-{chosen.platform}.toml"
    if not base.is_file():
        raise UsageError(f"no recipe {base.name}", fix="Install k3repro again, or run it in a checkout.")
    promise = "; ".join(map(str, goals)) or "no latency goal"
    written = {
        "recipe.toml": _recipe(chosen, base.name, f"{promise}. Verdict: {pick.verdict}"),
        "plan.sh": _plan(chosen),
        "sized.toml": _pipeline(chosen, promise),
        "measure.ipynb": json.dumps(_notebook(workload), indent=1) + "\n",
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file in (base, base.parent / "kimi-k3-2p2d.toml"):
            shutil.copyfile(file, folder / file.name)
        for name, text in written.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write into {folder}: {error.strerror}") from None
    return [folder / name for name in written]


def _pools(candidate: Candidate) -> str:
    one = f"{candidate.prefill_pools} prefill and {candidate.decode_pools} decode pools"
    each = f", {candidate.replicas} times, each with its own router" if candidate.replicas > 1 else ""
    return f"{one} of {candidate.nodes_per_pool} nodes{each}"


def _recipe(candidate: Candidate, base: str, promise: str) -> str:
    settings, usual = candidate.settings, published(candidate.platform).settings
    lines = [
        f"# {candidate.shape}: {_pools(candidate)}. This is one pool of each.",
        f"# Promise, simulated: {promise}.",
        'name = "sized"',
        f'title = "Kimi-K3 on {candidate.platform}, sized {candidate.shape}"',
        f'extends = "{base}"',
        "",
        "[sources]",
        'sized = "capacity size"',
    ]
    if settings.prefix_caching:
        why = 'source = "sized", why = "Prompts of this workload share prefixes." }'
        lines += [
            "", "[flags.all]", f'"--no-enable-prefix-caching" = {{ value = false, {why}',
            f'"--enable-prefix-caching" = {{ value = true, {why}',
        ]  # fmt: skip
    if settings.kv_splits != usual.kv_splits:
        why = 'source = "sized", why = "Decode attention splits as the engine chooses." }'
        lines += ["", "[env.all]", f'K3_MLA_SINGLE_SPLIT = {{ value = "0", {why}']
    return "\n".join(lines) + "\n"


def _plan(candidate: Candidate) -> str:
    settings, usual = candidate.settings, published(candidate.platform).settings
    call = ["k3repro bringup plan", '--cluster "$cluster"', '--recipe "$here/recipe.toml"']
    call += [
        f"--set layout.{name}={getattr(settings, name)}"
        for name in _LAYOUT
        if getattr(settings, name) != getattr(usual, name)
    ]
    return "\n".join(
        [
            "#!/bin/sh",
            "# Prints the commands of one prefill and one decode pool: sh plan.sh CLUSTER.toml [--write DIR]",
            f"# There are {_pools(candidate)}.",
            "# Repeat it with the nodes of each, and give a router all pools of its replica.",
            "cluster=${1:?usage: sh plan.sh CLUSTER.toml [--write DIR]}",
            'here=$(dirname "$0")',
            "shift",
            f'{" ".join(call)} "$@"',
            "",
        ]
    )


def _pipeline(candidate: Candidate, promise: str) -> str:
    return f"""# Measures what was promised for {candidate.shape}: {promise}.
# k3repro run sized.toml --target http://router:30000
[pipeline]
name = "sized"
about = "The gate, then the workload as `capacity size` simulated it."

[[stage]]
name = "promise"
notebook = "measure.ipynb"
parameters = {{ TARGET = "twin:{candidate.platform}" }}
seals = ["needle-gate@{{TARGET}}", "envelope@{{TARGET}}"]
"""


def _notebook(workload: Workload) -> dict[str, Any]:
    isl, osl = round(workload.mean_isl), round(workload.mean_osl)
    users = getattr(workload.arrival, "users", 0) or 1
    gate = min(50_000, max(1000, isl))
    code = [
        "from k3repro.probes import run_probe",
        f"run_probe('needle-gate', target=TARGET, context={gate}, concurrency=(1, {min(users, 32)}))",
        f"run_probe('envelope', target=TARGET, isl={isl}, osl={osl}, concurrency=(1, {users}), waves=3)",
    ]

    def cell(source: list[str], *tags: str) -> dict[str, Any]:
        return {
            "cell_type": "code", "execution_count": None, "id": tags[0] if tags else "measure",
            "metadata": {"tags": list(tags)}, "outputs": [], "source": [f"{line}\n" for line in source],
        }  # fmt: skip

    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {
        "cells": [cell(['TARGET = "twin:mi325x"'], "parameters"), cell(code)],
        "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5,
    }  # fmt: skip
