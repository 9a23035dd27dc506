"""`k3repro budget`: bytes per component and per GPU, from safetensors headers or a spec alone."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from k3repro.budget import (
    Candidate,
    Checkpoint,
    candidates,
    checkpoint_of_headers,
    checkpoint_of_model,
    needs_expert_parallel,
    smallest_pool,
    terms_of,
    weights_of,
    write_fixture,
)
from k3repro.capacity import BlockLaw, block_law, blocks_of_gib, n_max
from k3repro.cli import emit
from k3repro.cli._launch import ChosenLaunch, Size, launch_options, resolve
from k3repro.cli.tables import printer
from k3repro.errors import InputError, UsageError
from k3repro.serve.lines import print_kv_lines
from k3repro.spec import Model, layout_for, load_model, platforms
from k3repro.units import GIB, format_decimal, thousands

MOST_NODES = 16
"""How far the fewest nodes that start are looked for."""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--model", help="Shipped model (kimi-k3), spec .toml, or Hub config.json.")
@click.option("--headers", help="Checkpoint: a .safetensors file, a folder, an index .json, or a URL of one.")
@click.option("--platform", help="mi300x, h200, b300, ... or a spec .toml. Default: all of them, without KV.")
@click.option("--heap", type=Size(), help="Communication heap per GPU. Default: as published, else none.")
@click.option(
    "--overhead",
    type=Size(),
    help="Activations, graphs, reserve per GPU. Default: as published, else what the engine leaves free.",
)
@click.option("--resident", help="Format routed experts are held in, for example mxfp4 or int4-g32-bf16.")
@click.option(
    "--write-fixture",
    "fixture_folder",
    type=click.Path(path_type=Path),
    help="Write the model's headers there and stop.",
)
@launch_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def budget(
    model: str | None, headers: str | None, platform: str | None, heap: int | None, overhead: int | None,
    resident: str | None, fixture_folder: Path | None, as_json: bool, **given: Any,
) -> None:  # fmt: skip
    """Every byte of a checkpoint by component, the layouts that hold it, and the KV pool it leaves.

    Only headers are read, never weights; without --headers the tensors follow from the model's spec.

    \b
    Examples:
      k3repro budget --model kimi-k3 --platform mi300x
      k3repro budget --headers /models/Kimi-K3 --model kimi-k3 --platform mi325x --json
      k3repro budget --headers https://host/repo/resolve/main/model.safetensors.index.json
      k3repro budget --model kimi-k3 --platform mi300x --tp 4 --pool 30GiB --prefix-caching
      k3repro budget --model Qwen3-30B-A3B/config.json --platform h100
      k3repro budget --model kimi-k3 --platform h200 --tp 16 --pool 0.82GiB --max-model-len 29696
    """
    spec = _spec(model, headers)
    if fixture_folder is not None:
        _fixture(spec, fixture_folder, as_json=as_json)
        return
    checkpoint = _checkpoint(spec, headers, quiet=as_json)
    answer = _describe(checkpoint, spec)
    if spec is None:
        answer |= {"layouts": [], "kv": None, "reason": "no config.json beside the headers; give --model"}
    else:
        answer |= _plans(
            checkpoint, spec, platform, given | {"heap": heap, "overhead": overhead, "resident": resident}
        )
    if as_json:
        emit(answer)
    else:
        _show(answer)


def _spec(model: str | None, headers: str | None) -> Model | None:
    if model is not None:
        return load_model(model)
    if headers is None:
        return load_model("kimi-k3")
    beside = Path(headers) if Path(headers).is_dir() else Path(headers).parent
    return load_model(str(beside / "config.json")) if (beside / "config.json").is_file() else None


def _fixture(spec: Model | None, folder: Path, *, as_json: bool) -> None:
    if spec is None:
        raise UsageError("a fixture is made from a model", fix="Give --model.")
    files = write_fixture(spec, folder)
    size = sum(file.stat().st_size for file in files)
    if as_json:
        emit({"folder": str(folder), "shards": len(files), "bytes": size})
    else:
        click.echo(f"{len(files)} header-only shards, {thousands(size)} bytes, in {folder}")


def _checkpoint(spec: Model | None, headers: str | None, *, quiet: bool) -> Checkpoint:
    if headers is None:
        assert spec is not None
        return checkpoint_of_model(spec)
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        return checkpoint_of_headers(headers, spec)
    with console.status("reading headers") as status:
        return checkpoint_of_headers(headers, spec, progress=lambda name: status.update(f"reading {name}"))


def _describe(checkpoint: Checkpoint, spec: Model | None) -> dict[str, Any]:
    inventory = checkpoint.inventory
    return {
        "model": spec.name if spec else None,
        "source": checkpoint.source.partition("?")[0],
        "shards": checkpoint.shards,
        "header_bytes": checkpoint.header_bytes,
        "tensors": inventory.tensors,
        "parameters": inventory.parameters,
        "total_bytes": inventory.bytes,
        "bytes": {name: part.bytes for name, part in inventory.components.items()},
        "parameters_by_component": {name: part.parameters for name, part in inventory.components.items()},
        "dtypes": inventory.dtypes,
        "unknown_tensors": list(inventory.unknown_names[:20]),
        "findings": list(inventory.findings),
        "unknown_fields": dict(spec.unknown) if spec else {},
    }


def _plans(
    checkpoint: Checkpoint, spec: Model, platform: str | None, given: dict[str, Any]
) -> dict[str, Any]:
    if platform is None:
        return {"layouts": [], "kv": None, "smallest_nodes_per_pool": _smallest(checkpoint, spec, given)}
    launch = resolve(spec, platform, checkpoint=checkpoint, **given)
    assert launch.platform is not None and launch.terms is not None and launch.plan is not None
    weights = weights_of(checkpoint.inventory, spec, given["resident"], platform=launch.platform)
    terms = {"heap": launch.terms.heap, "overhead": launch.terms.overhead}
    smallest = smallest_pool(spec, weights, launch.platform, **terms)
    shown = [launch.plan]
    if given.get("tp") is None and launch.engine.pp == 1:
        shown = list(
            candidates(spec, weights, launch.platform, launch.plan.nodes, dp=given.get("dp"), **terms)
        )
    return {
        "platform": launch.platform.name,
        "terms": asdict(launch.terms),
        "resident_format": weights.resident_format,
        "smallest_nodes_per_pool": {launch.platform.name: smallest.nodes_per_pool},
        "layouts": [
            plan.as_dict()
            | {"starts": _starts(launch, plan), "without_ep": needs_expert_parallel(spec, plan.ep) or None}
            for plan in shown
        ],
        "kv": _kv(launch),
        "no_kv": launch.no_pool or None,
        "fewest_nodes_that_start": _fewest(launch, checkpoint, platform, given),
    }


def _fewest(launch: ChosenLaunch, checkpoint: Checkpoint, platform: str, given: dict[str, Any]) -> int | None:
    """Nodes at which the engine starts, where it does not on these; None where it does or none will do."""
    if given.get("pool") is not None or (launch.pool and not launch.refusals(launch.pool)):
        return None
    for nodes in range((launch.nodes or 1) + 1, MOST_NODES + 1):
        try:
            tried = resolve(launch.model, platform, checkpoint=checkpoint, **given | {"nodes": nodes})
        except (InputError, UsageError):
            continue
        if tried.pool and not tried.refusals(tried.pool):
            return nodes
    return None


def _smallest(checkpoint: Checkpoint, spec: Model, given: dict[str, Any]) -> dict[str, int | None]:
    """Nodes of the smallest pool on every platform; None where the most that are tried do not hold it."""
    found: dict[str, int | None] = {}
    for item in platforms():
        layout = layout_for(spec.name, item.name)
        terms = terms_of(
            item, layout, utilization=given["utilization"], heap=given["heap"], overhead=given["overhead"]
        )
        weights = weights_of(checkpoint.inventory, spec, given["resident"], platform=item)
        try:
            smallest = smallest_pool(spec, weights, item, heap=terms.heap, overhead=terms.overhead)
        except InputError:
            found[item.name] = None
        else:
            found[item.name] = smallest.nodes_per_pool
    return found


def _starts(launch: ChosenLaunch, plan: Candidate) -> list[str] | None:
    """Why the engine would not start in a layout with what is left there; None where nothing is left."""
    if plan.verdict == "impossible" or plan.headroom_low <= 0 or launch.terms is None:
        return None
    tried = replace(launch, engine=replace(launch.engine, tp=plan.tp, dp=plan.dp))
    own = launch.plan is not None and plan.tp == launch.plan.tp and launch.pool is not None
    return list(tried.refusals(launch.pool if own and launch.pool is not None else plan.headroom_low))


def _kv(launch: ChosenLaunch) -> dict[str, Any] | None:
    """The KV pool of the launch, what the engine will print about it, and why it would not start."""
    if launch.pool is None:
        return None
    pool = launch.pool
    law = block_law(launch.model, launch.engine)
    # Refuses a pool without room for a single request, with the size that would do.
    n_max(launch.model, launch.engine, pool, 1)
    length = launch.max_model_len or law.longest_at_run_time(pool) or 1
    kv = _printed(law, pool, length)
    return kv | {
        "max_request_tokens": law.longest_at_run_time(pool),
        "startup_max_model_len": law.longest_at_startup(pool),
        "starts": law.starts(pool, length),
        "refusals": list(launch.refusals(pool)),
        "max_model_len": length,
        "pool_bytes": int(pool),
        "pool_source": launch.sources["pool"],
        "pool_blocks_if_rounded": _if_rounded(law, pool),
        "room": _room(launch, pool),
        "terms": law.terms(),
        "launch": launch.as_dict(),
    }


def _printed(law: BlockLaw, pool: int, length: int) -> dict[str, Any]:
    blocks = law.pool_blocks(pool)
    tokens, concurrency = law.printed_tokens(blocks, length), law.concurrency(blocks, length)
    return {
        "block_tokens": law.block_tokens,
        "pool_blocks": blocks,
        "tokens": tokens,
        "concurrency": concurrency,
        "lines": print_kv_lines(tokens, length, concurrency, version=law.engine.version),
    }


def _if_rounded(law: BlockLaw, pool: int) -> list[int] | None:
    """Every number of blocks that a pool printed as "x.yz GiB" may have, where it was given so."""
    printed = getattr(pool, "printed_gib", None)
    return None if printed is None else [*blocks_of_gib(law, printed)]


def _room(launch: ChosenLaunch, pool: int) -> dict[str, Any] | None:
    """Whether the pool fits beside the weights, on the fullest stage."""
    if launch.plan is None or launch.terms is None:
        return None
    low, high = launch.plan.headroom_low, launch.plan.headroom_high
    verdict = "yes" if pool <= low else "tight" if pool <= high else "no"
    return {"fits": verdict, "low": low, "high": high, "heap": launch.terms.heap}


def _gib(value: int) -> str:
    return format_decimal(value / GIB, 2)


def _show(answer: dict[str, Any]) -> None:
    console = printer()
    table = Table(title=f"{answer['model'] or answer['source']}: {thousands(answer['tensors'])} tensors")
    for column, align in (
        ("component", "left"),
        ("bytes", "right"),
        ("GiB", "right"),
        ("parameters", "right"),
    ):
        table.add_column(column, justify=align)  # type: ignore[arg-type]
    for name, size in answer["bytes"].items():
        table.add_row(name, thousands(size), _gib(size), thousands(answer["parameters_by_component"][name]))
    table.add_section()
    total = answer["total_bytes"]
    table.add_row("total", thousands(total), _gib(total), thousands(answer["parameters"]))
    console.print(table)
    for finding in answer["findings"]:
        console.print(f"finding: {finding}", style="yellow", markup=False)
    if answer.get("smallest_nodes_per_pool"):
        for name, count in answer["smallest_nodes_per_pool"].items():
            told = "more than 64 nodes" if count is None else f"{count} node(s)"
            console.print(f"smallest pool that holds the weights on {name}: {told}", markup=False)
    if answer["layouts"]:
        console.print(_layout_table(answer))
        for plan in answer["layouts"]:
            console.print(f"{_name(plan)} {plan['verdict']}: {plan['reason']}", markup=False)
            for refusal in plan["starts"] or ():
                console.print(f"  would not start: {refusal}", markup=False, highlight=False)
            if plan["without_ep"]:
                said = f"  without --enable-expert-parallel vLLM refuses: {plan['without_ep']}"
                console.print(said, markup=False, highlight=False)
        if any(plan["per_gpu"]["experts_resident"] and plan["ep"] > 1 for plan in answer["layouts"]):
            console.print("experts lie over EP = TP x DP: --enable-expert-parallel", markup=False)
        console.print(f"heap and overhead: {answer['terms']['basis']}", markup=False)
    if answer["kv"]:
        _show_kv(console, answer["kv"])
    elif answer.get("no_kv"):
        console.print(f"no KV pool: {answer['no_kv']}", markup=False)
    if answer.get("fewest_nodes_that_start"):
        told = f"fewest nodes that start: {answer['fewest_nodes_that_start']}"
        console.print(f"{told}, with length and slots as given or the engine's own", markup=False)
    if "reason" in answer:
        console.print(answer["reason"], markup=False)


def _name(plan: dict[str, Any]) -> str:
    return f"TP{plan['tp']}" + (f"xPP{plan['pp']}" if plan["pp"] > 1 else "") + f"xDP{plan['dp']}"


def _layout_table(answer: dict[str, Any]) -> Table:
    gpu = answer["layouts"][0]["per_gpu"]
    title = (
        f"{answer['platform']}: GiB per GPU; HBM {_gib(gpu['hbm'])}, heap {_gib(gpu['heap'])}, "
        f"overhead {_gib(gpu['overhead'])}; experts held as {answer['resident_format']}"
    )
    table = Table(title=title)
    table.add_column("layout", no_wrap=True)
    for column in ("experts", "dense, sharded", "or whole", "KV left", "at least", "if as stored"):
        table.add_column(column, justify="right")
    table.add_column("verdict", no_wrap=True)
    for plan in answer["layouts"]:
        gpu, left = plan["per_gpu"], plan["kv_headroom"]
        sizes = (
            gpu["experts_resident"], gpu["dense_sharded"], gpu["dense_replicated"],
            left["high"], left["low"], left["on_disk_format"],
        )  # fmt: skip
        name = _name(plan)
        table.add_row(name, *(format_decimal(size / GIB, 1) for size in sizes), plan["verdict"])
    return table


def _show_kv(console: Console, kv: dict[str, Any]) -> None:
    lines = [
        f"KV pool {thousands(kv['pool_bytes'])} bytes per GPU ({kv['pool_source']})",
        f"blocks of {kv['block_tokens']} tokens and {thousands(kv['terms']['pool_block_bytes'])} bytes: "
        f"{kv['pool_blocks']}",
        f"longest request {thousands(kv['max_request_tokens'] or 0)} tokens",
    ]
    room = kv["room"]
    if not kv["refusals"] and not (room and room["fits"] == "no"):
        lines += ["the engine will print:", *(f"  {line}" for line in kv["lines"])]
    if room and room["fits"] != "yes":
        only = "if every dense tensor shards" if room["fits"] == "tight" else "at best"
        verdict = "fits only just" if room["fits"] == "tight" else "DOES NOT FIT"
        lines.append(
            f"the pool {verdict}: {_gib(kv['pool_bytes'])} GiB, and {_gib(room['high'])} GiB are left {only} "
            f"(heap {_gib(room['heap'])} GiB)"
        )
    if kv["pool_blocks_if_rounded"]:
        low, high = kv["pool_blocks_if_rounded"][0], kv["pool_blocks_if_rounded"][-1]
        lines.append(f"a size rounded to those digits means {low} to {high} blocks")
    lines += [f"it would stop before printing its KV lines: {refusal}" for refusal in kv["refusals"]]
    for line in lines:
        console.print(line, markup=False, highlight=False)
