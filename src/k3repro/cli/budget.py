"""`k3repro budget`: bytes per component and per GPU, from safetensors headers or a spec alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from k3repro.budget import (
    HEAP,
    OVERHEAD,
    Candidate,
    Checkpoint,
    candidates,
    checkpoint_of_headers,
    checkpoint_of_model,
    smallest_pool,
    tensor_parallel_sizes,
    weights_of,
    write_fixture,
)
from k3repro.capacity import block_law, n_max
from k3repro.cli import emit
from k3repro.cli._launch import Launch, Size, launch_options, resolve
from k3repro.errors import UsageError
from k3repro.serve.lines import print_kv_lines
from k3repro.spec import Model, load_model, platforms
from k3repro.units import GIB, format_decimal, thousands


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--model", help="Shipped model (kimi-k3), spec .toml, or Hub config.json.")
@click.option("--headers", help="Checkpoint: a .safetensors file, a folder, an index .json, or a URL of one.")
@click.option("--platform", help="mi300x, mi325x, mi355x or a spec .toml. Default: all of them, without KV.")
@click.option(
    "--nodes", type=int, help="Nodes per pool. Default: the published pool, else the smallest that fits."
)
@click.option("--heap", type=Size(), help="Communication heap per GPU. Default: 16 GiB, as published.")
@click.option(
    "--overhead", type=Size(), help="Activations, graphs, reserve per GPU. Default: 28 GiB, as published."
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
    model: str | None, headers: str | None, platform: str | None, nodes: int | None, heap: int | None,
    overhead: int | None, resident: str | None, fixture_folder: Path | None, as_json: bool,
    **given: Any,
) -> None:  # fmt: skip
    """Every byte of a checkpoint by component, the layouts that hold it, and the KV pool it leaves.

    Only headers are read, never weights; without --headers the tensors follow from the model's spec.

    \b
    Examples:
      k3repro budget --model kimi-k3 --platform mi300x
      k3repro budget --headers /models/Kimi-K3 --model kimi-k3 --platform mi325x --json
      k3repro budget --headers https://host/repo/resolve/main/model.safetensors.index.json
      k3repro budget --model kimi-k3 --platform mi300x --tp 4 --pool 30GiB --prefix-caching
    """
    spec = _spec(model, headers)
    if fixture_folder is not None:
        _fixture(spec, fixture_folder, as_json=as_json)
        return
    checkpoint = _checkpoint(spec, headers, quiet=as_json)
    answer = _describe(checkpoint, spec)
    terms = {"heap": HEAP if heap is None else heap, "overhead": OVERHEAD if overhead is None else overhead}
    if spec is None:
        answer |= {"layouts": [], "kv": None, "reason": "no config.json beside the headers; give --model"}
    else:
        answer |= _plans(checkpoint, spec, platform, nodes, resident, terms, given | {"heap": heap})
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
    checkpoint: Checkpoint, spec: Model, platform: str | None, nodes: int | None, resident: str | None,
    terms: dict[str, int], given: dict[str, Any],
) -> dict[str, Any]:  # fmt: skip
    inventory = checkpoint.inventory
    if platform is None:
        found = {
            item.name: smallest_pool(
                spec, weights_of(inventory, spec, resident, platform=item), item, **terms
            ).nodes_per_pool
            for item in platforms()
        }
        return {"layouts": [], "kv": None, "smallest_nodes_per_pool": found}
    launch = resolve(spec, platform, **given)
    assert launch.platform is not None
    _check_shape(launch, nodes, given)
    weights = weights_of(inventory, spec, resident, platform=launch.platform)
    smallest = smallest_pool(spec, weights, launch.platform, **terms)
    count = nodes
    if count is None:
        count = launch.layout.decode_nodes if launch.layout else smallest.nodes_per_pool
    plans = list(candidates(spec, weights, launch.platform, count, **terms))
    shown = [plan for plan in plans if given.get("tp") in (None, plan.tp)]
    return {
        "platform": launch.platform.name,
        "resident_format": weights.resident_format,
        "smallest_nodes_per_pool": {launch.platform.name: smallest.nodes_per_pool},
        "layouts": [plan.as_dict() for plan in shown],
        "kv": _kv(launch, plans, given),
    }


def _check_shape(launch: Launch, nodes: int | None, given: dict[str, Any]) -> None:
    assert launch.platform is not None
    if nodes is not None and nodes < 1:
        raise UsageError(f"--nodes must be at least 1, not {nodes}")
    sizes = tensor_parallel_sizes(launch.platform)
    if given.get("tp") not in (None, *sizes):
        raise UsageError(
            f"TP{given['tp']} does not divide the {launch.platform.gpus_per_node} GPUs of a node",
            fix=f"Choose {', '.join(map(str, sizes))}.",
        )


def _kv(launch: Launch, plans: list[Candidate], given: dict[str, Any]) -> dict[str, Any] | None:
    """The KV pool of the launch: as given or published, else what the chosen layout leaves."""
    pool, source = launch.pool, launch.sources["pool"]
    if pool is None:
        tp = given.get("tp") or next((plan.tp for plan in plans if plan.headroom_low > 0), None)
        plan = next((plan for plan in plans if plan.tp == tp), None)
        if plan is None or plan.headroom_low <= 0:
            return None
        launch = resolve(
            launch.model, launch.platform.name if launch.platform else None, **given | {"tp": tp}
        )
        pool, source = plan.headroom_low, "headroom of the layout, doubtful tensors replicated"
    law = block_law(launch.model, launch.engine)
    blocks = law.pool_blocks(pool)
    length = launch.max_model_len or law.longest_at_run_time(pool) or 1
    # Refuses a pool without room for a single request, with the size that would do.
    n_max(launch.model, launch.engine, pool, 1)
    tokens, concurrency = law.printed_tokens(blocks, length), law.concurrency(blocks, length)
    return {
        "block_tokens": law.block_tokens,
        "pool_blocks": blocks,
        "tokens": tokens,
        "max_request_tokens": law.longest_at_run_time(pool),
        "startup_max_model_len": law.longest_at_startup(pool),
        "starts": law.starts(pool, length),
        "max_model_len": length,
        "concurrency": concurrency,
        "pool_bytes": pool,
        "pool_source": source,
        "room": _room(launch, plans, pool, heap=given.get("heap")),
        "lines": print_kv_lines(tokens, length, concurrency, version=launch.engine.version),
        "terms": law.terms(),
        "launch": launch.as_dict(),
    }


def _room(launch: Launch, plans: list[Candidate], pool: int, *, heap: int | None) -> dict[str, Any] | None:
    """Whether the pool fits beside the weights: with the heap as given, else as published for the launch."""
    plan = next((plan for plan in plans if plan.tp == launch.engine.tp), None)
    if plan is None:
        return None
    if heap is None:
        heap = (launch.layout and launch.layout.heap_bytes) or plan.heap
    low, high = (room + plan.heap - heap for room in (plan.headroom_low, plan.headroom_high))
    verdict = "yes" if pool <= low else "tight" if pool <= high else "no"
    return {"fits": verdict, "low": low, "high": high, "heap": heap}


def _gib(value: int) -> str:
    return format_decimal(value / GIB, 2)


def _show(answer: dict[str, Any]) -> None:
    console = Console()
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
            console.print(f"smallest pool on {name}: {count} node(s)", markup=False)
    if answer["layouts"]:
        console.print(_layout_table(answer))
        for plan in answer["layouts"]:
            console.print(f"TP{plan['tp']}xDP{plan['dp']} {plan['verdict']}: {plan['reason']}", markup=False)
    if answer["kv"]:
        _show_kv(console, answer["kv"])
    if "reason" in answer:
        console.print(answer["reason"], markup=False)


def _layout_table(answer: dict[str, Any]) -> Table:
    gpu = answer["layouts"][0]["per_gpu"]
    title = (
        f"{answer['platform']}: GiB per GPU; HBM {_gib(gpu['hbm'])}, heap {_gib(gpu['heap'])}, "
        f"overhead {_gib(gpu['overhead'])}; experts as {answer['resident_format']}"
    )
    table = Table(title=title)
    table.add_column("layout")
    for column in ("experts", "dense, sharded", "or whole", "KV left", "at least", "experts as on disk"):
        table.add_column(column, justify="right")
    table.add_column("verdict")
    for plan in answer["layouts"]:
        gpu, left = plan["per_gpu"], plan["kv_headroom"]
        sizes = (
            gpu["experts_resident"], gpu["dense_sharded"], gpu["dense_replicated"],
            left["high"], left["low"], left["on_disk_format"],
        )  # fmt: skip
        name = f"TP{plan['tp']}xDP{plan['dp']}"
        table.add_row(name, *(format_decimal(size / GIB, 1) for size in sizes), plan["verdict"])
    return table


def _show_kv(console: Console, kv: dict[str, Any]) -> None:
    lines = [
        f"KV pool {thousands(kv['pool_bytes'])} bytes per GPU ({kv['pool_source']})",
        f"blocks of {kv['block_tokens']} tokens and {thousands(kv['terms']['pool_block_bytes'])} bytes: "
        f"{kv['pool_blocks']}",
        f"longest request {thousands(kv['max_request_tokens'] or 0)} tokens",
        "the engine will print:",
        *(f"  {line}" for line in kv["lines"]),
    ]
    room = kv["room"]
    if room and room["fits"] != "yes":
        only = "if every dense tensor shards" if room["fits"] == "tight" else "at best"
        verdict = "fits only just" if room["fits"] == "tight" else "DOES NOT FIT"
        lines.append(
            f"the pool {verdict}: {_gib(kv['pool_bytes'])} GiB, and {_gib(room['high'])} GiB are left {only} "
            f"(heap {_gib(room['heap'])} GiB)"
        )
    if not kv["starts"]:
        lines.append(f"it will not start at max_model_len {thousands(kv['max_model_len'])}")
    for line in lines:
        console.print(line, markup=False, highlight=False)
