"""Options that describe a launch, shared by `budget` and `capacity`, and what they resolve to."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import click

from k3repro.budget import (
    Candidate,
    Checkpoint,
    Inventory,
    Terms,
    checkpoint_of_model,
    default_slots,
    default_step_tokens,
    nodes_of,
    smallest_pool,
    terms_of,
    weights_of,
    weights_of_stages,
)
from k3repro.capacity import (
    Engine,
    at_tp,
    block_law,
    first_that_starts,
    left_pool,
    parse_version,
    refusals,
)
from k3repro.errors import InputError, SpecError, UsageError
from k3repro.spec import Layout, Model, Platform, layout_for, load_model, load_platform
from k3repro.units import parse_bytes, parse_tokens

F = TypeVar("F", bound=Callable[..., Any])


class PrintedBytes(int):
    """Bytes of a size given in GiB with decimals, as an engine prints it; `printed_gib` keeps the digits."""

    printed_gib: str


class Size(click.ParamType[int]):
    """Bytes: 40GB, 16GiB, 13e9, or 0.82 GiB as an engine prints it."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse, or fail as a usage error."""
        if isinstance(value, int):
            return value
        size = parse_bytes(value)
        if printed := re.fullmatch(r"\s*(\d+\.\d+)\s*GiB\s*", value):
            rounded = PrintedBytes(size)
            rounded.printed_gib = printed[1]
            return rounded
        return size


class Tokens(click.ParamType[int]):
    """Tokens: 200K, 512Ki, 900000."""

    name = "tokens"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse, or fail as a usage error."""
        return value if isinstance(value, int) else parse_tokens(value)


_OPTIONS = (
    click.option("--nodes", type=int, help="Nodes per pool. Default: as published, else the fewest."),
    click.option("--tp", type=int, help="Tensor-parallel size. Default: as published, else what fits."),
    click.option("--dp", type=int, help="DP ranks of the decode pool."),
    click.option("--pp", type=int, help="Pipeline stages. Default: as published, else 1."),
    click.option("--dcp", type=int, default=1, show_default=True, help="Decode context parallel size."),
    click.option("--pool", type=Size(), help="KV pool per GPU: 13GB, 12GiB (--kv-cache-memory-bytes)."),
    click.option("--utilization", type=float, help="gpu_memory_utilization. Default: the engine's."),
    click.option("--kv-dtype", help="auto, bf16, fp8, fp8_ds_mla."),
    click.option("--prefix-caching/--no-prefix-caching", default=None, help="Default: as published."),
    click.option("--engine", help="Engine and version, for example vllm==0.28.0."),
    click.option("--max-model-len", type=Tokens(), help="Longest request the engine accepts: 900K."),
    click.option("--max-num-seqs", type=int, help="In-flight sequences per DP rank."),
    click.option("--speculative", type=int, default=0, help="Draft tokens per step (k)."),
    click.option("--block-size", type=int, help="The engine's --block-size."),
    click.option("--backend", help="Attention backend, for example TRITON_MLA."),
    click.option("--max-num-batched-tokens", type=int, help="Tokens per step; sliding windows need it."),
)  # fmt: skip


def launch_options(function: F) -> F:
    """Add the options of a launch to a command; it receives them as keyword arguments for `resolve`."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


@dataclass(frozen=True, slots=True)
class ChosenLaunch:
    """A model on a platform under an engine; `sources` says which of its settings the caller did not give.

    `pool` is bytes per GPU; `plan` is the layout beside whose weights it has to fit, where the platform is
    known. `slots` is max_num_seqs as given or published, else the engine's default on this GPU.
    """

    model: Model
    platform: Platform | None
    layout: Layout | None
    engine: Engine
    pool: int | None
    max_model_len: int | None
    max_num_seqs: int | None
    sources: dict[str, str]
    nodes: int | None = None
    terms: Terms | None = None
    plan: Candidate | None = None
    no_pool: str = ""

    @property
    def slots(self) -> int | None:
        """max_num_seqs, with the engine's default where neither a caller nor a publication says."""
        if self.max_num_seqs is not None or self.platform is None:
            return self.max_num_seqs
        return default_slots(self.platform)

    def refusals(self, pool: int) -> tuple[str, ...]:
        """Why the engine would not start; the default of max_num_seqs is named as such."""
        law = block_law(self.model, self.engine)
        found = refusals(law, pool, max_model_len=self.max_model_len, max_num_seqs=self.slots)
        default = self.max_num_seqs is None
        return tuple(
            text + (" (the engine's default, none was given)" if default and "max_num" in text else "")
            for text in found
        )

    def as_dict(self) -> dict[str, Any]:
        """What was assumed, as JSON data."""
        return {
            "model": self.model.name, "platform": self.platform.name if self.platform else None,
            "engine": ".".join(map(str, self.engine.version)), "tp": self.engine.tp, "dp": self.engine.dp,
            "pp": self.engine.pp, "dcp": self.engine.dcp, "kv_dtype": self.engine.kv_dtype,
            "nodes": self.nodes, "pool_bytes": self.pool, "max_model_len": self.max_model_len,
            "max_num_seqs": self.max_num_seqs, "sources": self.sources,
        }  # fmt: skip


def resolve(
    model: Model | str, platform: str | None, *, checkpoint: Checkpoint | None = None,
    nodes: int | None = None, heap: int | None = None, overhead: int | None = None,
    resident: str | None = None, **given: Any,
) -> ChosenLaunch:  # fmt: skip
    """Fill what was not given: from the published layout of this model on this platform, else from weights.

    The pool is derived here for every command: given, published, or what the weights leave. `checkpoint`
    counts the weights; without it they follow from the model's own description.

    Raises:
        UsageError: an option that no source gives a value for, or a negative one.
        InputError: a layout that the nodes do not hold.
    """
    spec = load_model(model) if isinstance(model, str) else model
    where = load_platform(platform) if platform else None
    layout = layout_for(spec.name, where.name) if where else None
    sources: dict[str, str] = {}

    def pick(option: str, field: str, fallback: Any, why: str = "default") -> Any:
        value = given.get(option)
        if value is not None:
            sources[option] = "given"
        elif layout is not None and getattr(layout, field) is not None:
            value = getattr(layout, field)
            sources[option] = f"{layout.name}: {layout.sources.get(f'layout.{field}', '')}"
        else:
            value, sources[option] = fallback, why
        return value

    _check_counts(given | {"nodes": nodes})
    step = default_step_tokens(where) if where else 2048
    engine = Engine(
        version=parse_version(pick("engine", "engine_version", "0.27")),
        tp=pick("tp", "tp", 1),
        pp=given.get("pp") or (layout.pp if layout else 1),
        dcp=given.get("dcp") or 1,
        kv_dtype=pick("kv_dtype", "kv_dtype", "auto"),
        prefix_caching=pick("prefix_caching", "prefix_caching", None),
        speculative=given.get("speculative") or 0,
        block_size=pick("block_size", "block_size", None),
        backend=given.get("backend"),
        in_flight_tokens=pick("max_num_batched_tokens", "max_num_batched_tokens", step),
    )
    launch = ChosenLaunch(
        spec, where, layout, engine,
        pick("pool", "kv_pool_bytes", None), pick("max_model_len", "max_model_len", spec.max_positions),
        pick("max_num_seqs", "max_num_seqs", None), sources, nodes,
    )  # fmt: skip
    if where is None:
        return replace(launch, engine=replace(engine, dp=given.get("dp") or 1))
    terms = terms_of(
        where,
        layout,
        version=engine.version,
        utilization=given.get("utilization"),
        heap=heap,
        overhead=overhead,
    )
    launch = replace(launch, terms=terms, nodes=nodes or _published_nodes(layout, engine, where))
    return _placed(launch, terms, checkpoint, resident, given.get("dp"))


def _check_counts(given: dict[str, Any]) -> None:
    for option in ("tp", "dp", "pp", "dcp", "nodes", "max_num_seqs", "max_model_len", "block_size"):
        if given.get(option) is not None and given[option] < 1:
            raise UsageError(f"--{option.replace('_', '-')} must be at least 1, not {given[option]}")


def _published_nodes(layout: Layout | None, engine: Engine, platform: Platform) -> int | None:
    """Nodes of the published pool, where DP ranks of this TP and PP fill its GPUs."""
    if layout is None:
        return None
    return layout.decode_nodes if layout.gpus >= engine.tp * engine.pp else None


def _placed(
    launch: ChosenLaunch, terms: Terms, checkpoint: Checkpoint | None, resident: str | None, dp: int | None
) -> ChosenLaunch:
    """The launch with its nodes, DP ranks, layout and pool. Weights are counted only where one needs it."""
    platform, engine = launch.platform, launch.engine
    assert platform is not None
    rank_nodes = nodes_of(engine.tp, engine.pp, platform)
    if dp is not None and launch.nodes is None:
        launch = replace(
            launch, nodes=max(rank_nodes, -(-engine.tp * engine.pp * dp // platform.gpus_per_node))
        )
    ranks = replace(launch, engine=replace(engine, dp=dp or _ranks(launch, platform, rank_nodes)))
    if checkpoint is None and launch.pool is not None and launch.sources["tp"] != "default":
        return ranks
    try:
        return _beside_weights(
            launch, terms, (checkpoint or checkpoint_of_model(launch.model)).inventory, resident, dp
        )
    except (InputError, SpecError) as error:
        if checkpoint is not None or launch.sources["tp"] == "given":
            raise
        return replace(ranks, no_pool=error.what)


def _beside_weights(
    launch: ChosenLaunch, terms: Terms, inventory: Inventory, resident: str | None, dp: int | None
) -> ChosenLaunch:
    """TP as given or the smallest that starts, its layout, and the pool it leaves where none is given."""
    model, platform, engine, nodes = launch.model, launch.platform, launch.engine, launch.nodes
    assert platform is not None
    if launch.sources["tp"] == "default":
        if nodes is None:
            whole = weights_of(inventory, model, resident, platform=platform)
            smallest = smallest_pool(model, whole, platform, heap=terms.heap, overhead=terms.overhead)
            nodes = smallest.nodes_per_pool
        engine = first_that_starts(
            model, engine, platform, inventory, terms, nodes=nodes, max_model_len=launch.max_model_len,
            resident=resident, dp=dp,
        )  # fmt: skip
    weights = weights_of_stages(inventory, model, engine.pp, resident, platform=platform)
    engine, plan = at_tp(model, engine, platform, weights, terms, nodes=nodes, tp=engine.tp, dp=dp)
    launch = replace(launch, engine=engine, nodes=plan.nodes, plan=plan)
    if launch.pool is not None:
        return launch
    try:
        pool = left_pool(block_law(model, engine), plan, terms)
    except InputError as error:
        return replace(launch, no_pool=error.what)
    launch.sources["pool"] = pool.source
    return replace(launch, pool=pool.bytes)


def _ranks(launch: ChosenLaunch, platform: Platform, rank_nodes: int) -> int:
    """DP ranks that the nodes hold, a published pool's GPUs among them."""
    ranks = launch.engine.tp * launch.engine.pp
    gpus = (launch.nodes or rank_nodes) * platform.gpus_per_node
    if launch.layout is not None and launch.nodes == launch.layout.decode_nodes:
        gpus = launch.layout.gpus
    if gpus < ranks:
        raise UsageError(
            f"TP{launch.engine.tp} x PP{launch.engine.pp} takes {ranks} GPUs, the nodes have {gpus}"
        )
    return gpus // ranks


def need_pool(launch: ChosenLaunch) -> int:
    """The pool, or the error that names the option.

    Raises:
        UsageError: none is known, with the reason.
    """
    if launch.pool is None:
        raise UsageError(
            f"the KV pool of {launch.model.name} here is not known: {launch.no_pool or 'no platform given'}",
            fix="Give it: --pool 40GB (bytes per GPU).",
        )
    return launch.pool
