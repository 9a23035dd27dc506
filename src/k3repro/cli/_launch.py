"""Options that describe a launch, shared by `budget` and `capacity`, and what they resolve to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from k3repro.capacity import Engine, parse_version
from k3repro.errors import UsageError
from k3repro.spec import Layout, Model, Platform, layout_for, load_model, load_platform
from k3repro.units import parse_bytes, parse_tokens

F = TypeVar("F", bound=Callable[..., Any])


class Size(click.ParamType[int]):
    """Bytes: 40GB, 16GiB, 13e9."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse, or fail as a usage error."""
        return value if isinstance(value, int) else parse_bytes(value)


class Tokens(click.ParamType[int]):
    """Tokens: 200K, 512Ki, 900000."""

    name = "tokens"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse, or fail as a usage error."""
        return value if isinstance(value, int) else parse_tokens(value)


_OPTIONS = (
    click.option("--tp", type=int, help="Tensor-parallel size. Default: as published, else what fits."),
    click.option("--dp", type=int, help="Data-parallel lanes of the decode pool."),
    click.option("--pp", type=int, default=1, show_default=True, help="Pipeline stages."),
    click.option("--dcp", type=int, default=1, show_default=True, help="Decode context parallel size."),
    click.option("--pool", type=Size(), help="KV pool per GPU: 13GB, 12GiB (--kv-cache-memory-bytes)."),
    click.option("--kv-dtype", help="auto, bf16, fp8, fp8_ds_mla."),
    click.option("--prefix-caching/--no-prefix-caching", default=None, help="Default: as published."),
    click.option("--engine", help="Engine and version, for example vllm==0.28.0."),
    click.option("--max-model-len", type=Tokens(), help="Longest request the engine accepts: 900K."),
    click.option("--max-num-seqs", type=int, help="In-flight sequences per lane."),
    click.option("--speculative", type=int, default=0, help="Draft tokens per step (k)."),
    click.option("--block-size", type=int, help="The engine's --block-size."),
    click.option("--backend", help="Attention backend, for example TRITON_MLA."),
    click.option("--max-num-batched-tokens", type=int, help="Tokens of a step; windows need it."),
)  # fmt: skip


def launch_options(function: F) -> F:
    """Add the options of a launch to a command; it receives them as keyword arguments for `resolve`."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


@dataclass(frozen=True, slots=True)
class Launch:
    """A model on a platform under an engine; `sources` says which of its settings the caller did not give."""

    model: Model
    platform: Platform | None
    layout: Layout | None
    engine: Engine
    pool: int | None
    max_model_len: int | None
    max_num_seqs: int | None
    sources: dict[str, str]

    def as_dict(self) -> dict[str, Any]:
        """What was assumed, as JSON data."""
        return {
            "model": self.model.name, "platform": self.platform.name if self.platform else None,
            "engine": ".".join(map(str, self.engine.version)), "tp": self.engine.tp, "dp": self.engine.dp,
            "pp": self.engine.pp, "dcp": self.engine.dcp, "kv_dtype": self.engine.kv_dtype,
            "pool_bytes": self.pool, "max_model_len": self.max_model_len, "max_num_seqs": self.max_num_seqs,
            "sources": self.sources,
        }  # fmt: skip


def resolve(model: Model | str, platform: str | None, **given: Any) -> Launch:
    """Fill what was not given from the published layout of this model on this platform, if there is one.

    Raises:
        UsageError: an option that no source gives a value for, or a negative one.
    """
    spec = load_model(model) if isinstance(model, str) else model
    where = load_platform(platform) if platform else None
    layout = layout_for(spec.name, where.name) if where else None
    sources: dict[str, str] = {}

    def pick(option: str, field: str, fallback: Any) -> Any:
        value = given.get(option)
        if value is not None:
            sources[option] = "given"
        elif layout is not None and getattr(layout, field) is not None:
            value = getattr(layout, field)
            sources[option] = f"{layout.name}: {layout.sources.get(f'layout.{field}', '')}"
        else:
            value, sources[option] = fallback, "default"
        return value

    for option in ("tp", "dp", "pp", "dcp", "max_num_seqs", "max_model_len", "block_size"):
        if given.get(option) is not None and given[option] < 1:
            raise UsageError(f"--{option.replace('_', '-')} must be at least 1, not {given[option]}")
    engine = Engine(
        version=parse_version(pick("engine", "engine_version", "0.27")),
        tp=pick("tp", "tp", 1),
        dp=_lanes(given, layout),
        pp=given.get("pp") or 1,
        dcp=given.get("dcp") or 1,
        kv_dtype=pick("kv_dtype", "kv_dtype", "auto"),
        prefix_caching=pick("prefix_caching", "prefix_caching", None),
        speculative=given.get("speculative") or 0,
        block_size=pick("block_size", "block_size", None),
        backend=given.get("backend"),
        in_flight_tokens=pick("max_num_batched_tokens", "max_num_batched_tokens", 2048),
    )
    return Launch(
        spec, where, layout, engine,
        pick("pool", "kv_pool_bytes", None), pick("max_model_len", "max_model_len", spec.max_positions),
        pick("max_num_seqs", "max_num_seqs", None), sources,
    )  # fmt: skip


def _lanes(given: dict[str, Any], layout: Layout | None) -> int:
    """DP as given; else what the published pool's GPUs leave for this TP; else one lane."""
    if given.get("dp") is not None:
        return int(given["dp"])
    if layout is None:
        return 1
    gpus = layout.gpus
    tp, pp = given.get("tp") or layout.tp, given.get("pp") or 1
    ranks = tp * pp
    if gpus % ranks:
        raise UsageError(
            f"TP{tp} does not divide the {gpus} GPUs of the published pool"
            if pp == 1
            else f"TP{tp} x PP{pp} does not divide the {gpus} GPUs of the published pool",
            fix="Choose TP and PP that do, or give the number of lanes: --dp.",
        )
    return gpus // ranks


def need_pool(launch: Launch) -> int:
    """The pool, or the error that names the option.

    Raises:
        UsageError: none is known.
    """
    if launch.pool is None:
        raise UsageError(
            f"the KV pool of {launch.model.name} here is not published",
            fix="Give it: --pool 40GB (bytes per GPU).",
        )
    return launch.pool
