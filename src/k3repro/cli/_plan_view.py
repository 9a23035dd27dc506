"""How `bringup plan` shows a plan: a summary, then commands, where knobs come from, and what differs."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from k3repro.bringup import (
    CHECKS,
    ROLES,
    RULES,
    Node,
    Plan,
    check_plan,
    container_argv,
    folded,
    inside_image,
    load_cluster,
    load_recipe,
    make_plan,
    router_argv,
    step,
)
from k3repro.budget import candidate, checkpoint_of_model, weights_of
from k3repro.errors import StoreError, UsageError
from k3repro.store import Store
from k3repro.units import GIB, format_decimal


def command_of(made: Plan, role: str) -> tuple[str, ...]:
    """The words that start a role, with the Slurm step around them."""
    launch = made.launch(role)
    words = container_argv(launch, made, f"SERVE:{role}")
    if not made.cluster.detached:
        words = inside_image(launch.engine, made, launch.env, launch.node.pool)
    return (*_step(made, launch.node), *words)


def router_command(made: Plan) -> tuple[str, ...]:
    """The words that start the router, with the Slurm step around them."""
    words = router_argv(made)
    return (*_step(made, made.router.node), *(words if made.cluster.detached else inside_image(words, made)))


def _step(made: Plan, node: Node) -> list[str]:
    return step(made.cluster, node.host) if made.cluster.scheduler == "slurm" else []


_ADAPTERS = {"mlx5": "ConnectX", "bnxt": "Thor2"}
_ORDINALS = ("first", "second", "third", "fourth")


def _place(made: Plan, node: Node) -> str:
    """Where a role runs; Slurm has yet to say so where nodes are only counted."""
    if not made.cluster.unnamed:
        return f"{node.host} ({node.address})"
    return f"the {_ORDINALS[ROLES.index(node.role)]} node that Slurm gives ({node.host} below)"


def summary(made: Plan) -> Iterator[str]:
    """Nodes, roles, layout, memory, what is checked, how long it takes, and what speaks against it."""
    cluster, layout = made.cluster, made.recipe.layout
    ranks = made.recipe.platform.gpus_per_node // layout.tp
    rails = _ADAPTERS.get(cluster.fabric_kind, cluster.fabric_kind)
    what = f"{made.recipe.model.title} on {made.recipe.platform.title}, {rails} rails"
    yield f"{what}: cluster {cluster.name}, plan {made.digest}"
    for number, launch in enumerate(made.launches, start=1):
        first = 0 if launch.node.master else ranks
        place = _place(made, launch.node)
        yield f"  {number}. {launch.role:15} DP ranks {first} to {first + ranks - 1} on {place}"
    url = f"its port {made.router.url.rpartition(':')[2]}" if cluster.unnamed else made.router.url
    yield f"  5. {'router':15} on {_place(made, made.router.node)}, for clients {url}"
    yield (
        f"layout per pool: TP{layout.tp} x DP{layout.dp}, EP{layout.tp * layout.dp}; "
        f"{layout.max_num_seqs} slots a DP rank, requests up to {layout.max_model_len:,} tokens"
    )
    yield from _memory(made)
    how = f"{cluster.scheduler}, {cluster.runtime}"
    yield f"started through {how}; logs in {cluster.logs} on every node"
    if cluster.scheduler == "slurm" and cluster.detached:
        yield f"containers of `up` are {cluster.runtime}'s: they outlive an allocation; `down` before it ends"
    yield f"checked: {len(RULES)} rules now, {len(CHECKS)} checks a node by `doctor`, the gate in `up`"
    order = {name: made.timing(name) / 60 for name in ("ready_s", "register_s", "answer_s")}
    yield (
        f"time: `up` waits at most {order['ready_s']:g} min for models, {order['register_s']:g} for routing, "
        f"{order['answer_s']:g} for the first answer"
    )
    variables = {name: value for launch in made.launches for name, value in launch.env}
    for name, cost in measured_costs().items():
        if name in variables:
            yield f"measured of {name} (here {variables[name]}): {cost}"
    yield from _verdicts(made, ("deny", "substitutes", "warn"))
    yield from (f"router: {item.flag} {item.value}: {item.action}" for item in made.substitutions)


def _verdicts(made: Plan, outcomes: tuple[str, ...]) -> Iterator[str]:
    for item in check_plan(made):
        if item.outcome in outcomes:
            yield f"{item.outcome}: [{item.id}] {item.what}. {item.reason} {item.fix}"


def _memory(made: Plan) -> Iterator[str]:
    """What a GPU holds, from the model's shapes and the layout."""
    recipe, layout = made.recipe, made.recipe.layout
    weights = weights_of(checkpoint_of_model(recipe.model).inventory, recipe.model, platform=recipe.platform)
    heap = layout.heap_bytes or 0
    plan = candidate(
        recipe.model, (weights,), recipe.platform, layout.decode_nodes, layout.tp, heap=heap, overhead=0
    )
    parts = {"experts": plan.experts_resident, "dense": plan.dense_low, "heap": heap}
    parts["KV pool"] = layout.kv_pool_bytes
    left = plan.hbm - sum(parts.values())
    told = ", ".join(f"{name} {format_decimal(size / GIB, 1)}" for name, size in parts.items())
    yield (
        f"GiB per GPU: {told}; {format_decimal(left / GIB, 1)} of {format_decimal(plan.hbm / GIB, 1)} left "
        "for activations, graphs and tensors kept whole"
    )


def commands(made: Plan) -> Iterator[str]:
    """Every command, an option a line."""
    for number, launch in enumerate(made.launches, start=1):
        yield f"\n# {number}. {launch.role} on {_place(made, launch.node)}"
        yield folded(command_of(made, launch.role))
    yield f"\n# 5. router on {_place(made, made.router.node)}"
    yield folded(router_command(made))


def knobs(made: Plan) -> list[dict[str, Any]]:
    """Every variable and flag: value, reason, source and, where this project measured it, its cost."""
    costs = measured_costs()
    return [
        {"section": section, "name": name, "value": knob.value, "why": knob.why, "source": knob.source}
        | ({"cost": costs[name]} if name in costs else {})
        for section, values in made.recipe.sections.items()
        for name, knob in values.items()
    ]  # fmt: skip


_PAYS = {"sum": "all sequences together", "longest": "the longest sequence"}


def measured_costs() -> dict[str, str]:
    """What this project measured of a knob, by its name; nothing where no such artifact is at hand."""
    try:
        store = Store()
        said = [
            f"{_splits(store, row['configuration'])}: {format_decimal(1e6 * row['slope_s_per_token'], 4)} us "
            f"for each token of {_PAYS.get(row['pays_for'], 'the sequence')}, "
            f"{row['serves']} serves ({law.tier}, {law.seal[:12]})"
            for law in store.artifacts("decode-law") for row in law.rows("law") if row["serves"] > 1
        ]  # fmt: skip
    except StoreError:
        return {}
    return {"K3_MLA_SINGLE_SPLIT": "time between tokens grows with " + "; with ".join(said)} if said else {}


def _splits(store: Store, subject: str) -> str:
    """How many KV splits a measured launch asked for, and where it ran."""
    measured = store.artifacts("decode-context", subject)
    splits = measured[-1].document["serve"].get("launch", {}).get("splits") if measured else None
    where = subject.partition("?")[0].rpartition("@")[2]
    number = "as many KV splits as the kernel chooses" if splits is None else f"{splits} KV split"
    return f"{number} on {where}"


def words_of(made: Plan) -> dict[str, list[str]]:
    """Role -> its command, an option a line: what two plans are compared by."""
    roles = {item.role: folded(command_of(made, item.role)) for item in made.launches}
    roles["router"] = folded(router_command(made))
    return {role: text.split("\n") for role, text in roles.items()}


def difference(made: Plan, other: str) -> Iterator[str]:
    """How a plan differs from another: a cluster file or name, a plan saved with --json, or "recipe".

    Raises:
        UsageError: nothing of these.
    """
    theirs = _other(made, other)
    yield from _verdicts(made, ("deny",))
    same = True
    for role, lines in words_of(made).items():
        changes = [
            line for line in difflib.unified_diff(theirs.get(role, []), lines, lineterm="", n=0)
            if not line.startswith(("---", "+++", "@@"))
        ]  # fmt: skip
        if changes:
            same = False
            yield f"# {role}"
            yield from changes
    if same:
        yield "no difference in any command"


def _other(made: Plan, other: str) -> dict[str, list[str]]:
    if other == "recipe":
        return words_of(make_plan(load_recipe(made.recipe.name), replace(made.cluster, overrides={})))
    if other.endswith(".json"):
        try:
            saved = json.loads(Path(other).read_text(encoding="utf-8"))
            steps = [(step["role"], step["command"]) for step in saved["steps"]]
            steps.append(("router", saved["router"]["command"]))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UsageError(f"{other} is not a plan saved with --json: {error}") from None
        return {role: folded(words).split("\n") for role, words in steps}
    loaded = load_cluster(other)
    return words_of(make_plan(load_recipe(loaded.recipe), loaded))
