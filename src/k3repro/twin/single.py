"""Single-node aggregated mode: `twin:PLATFORM-1n/MODEL`, one engine that prefills and decodes in one batch.

Nothing is fitted. Weights, cache and products come from the specs of model and platform, step costs from
their roofline (`single_work`), settings from the published launch of that model on one node where there is
one, else from the engine's defaults. `bandwidth_ppm`, `compute_ppm` and `floor_ns` are for whoever wants to
fit: their defaults are the roofline itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Self

from k3repro.capacity import Engine, parse_version
from k3repro.errors import K3Error, SpecError, UsageError
from k3repro.spec import EngineRule, Model, load_model, load_platform
from k3repro.twin._faults import rates
from k3repro.twin._platform import Platform
from k3repro.twin.single_launch import NodeLaunch, engine_says, launch_of
from k3repro.twin.single_work import Work, work_of

__all__ = ["SUFFIX", "SingleNode", "single_node", "single_sources"]

SUFFIX = "-1n"
_PPM = 1_000_000
# What a target string may change; the other fields of a platform belong to the two-pool cluster.
_SETTINGS = (
    "tp", "quantization", "kv_dtype", "block_size", "engine", "aiter", "kv_offload_bytes", "max_model_len",
    "max_num_seqs", "max_num_batched_tokens", "kv_pool_bytes", "prefix_caching", "gather_ns", "jitter_ppm",
    "bandwidth_ppm", "compute_ppm", "floor_ns", "defect",
)  # fmt: skip
_HANDOFF = ("kv-write-race", "fabric-wedged", "missing-peers", "tcp-fallback", "clock-skew")


@dataclass(frozen=True, slots=True)
class SingleNode(Platform):
    """One engine over `tp` GPUs of a node. Fields of the two-pool cluster are zero here.

    `aiter` and `kv_offload_bytes` are launch settings that no roofline knows: they decide whether an engine
    starts (`rules`), they never change what a step costs here.
    """

    gpu: str = ""
    tp: int = 1
    quantization: str = ""
    kv_dtype: str = "auto"
    block_size: int = 16
    engine: str = "0.14.1"
    max_num_batched_tokens: int = 8192
    aiter: int = 0
    kv_offload_bytes: int = 0
    bandwidth_ppm: int = _PPM
    compute_ppm: int = _PPM
    floor_ns: int = 0
    vision_mode: str = ""

    @property
    def rules(self) -> list[EngineRule]:
        """What this engine version does with these settings: deny (it does not start), substitutes, allow."""
        return engine_says(load_model(self.model), self._launch())

    @property
    def handoff_ns(self) -> int:
        """Nothing is handed over."""
        return 0

    @property
    def wire_ns(self) -> int:
        """Nothing is handed over."""
        return 0

    @property
    def spec_platform(self) -> str:
        """Name of the platform's spec."""
        return self.gpu

    def described(self) -> tuple[Model, Engine]:
        """Model and engine, as the block law wants them."""
        return load_model(self.model), self._engine()

    def work(self) -> Work:
        """Roofline of one GPU."""
        return work_of(self.model, self.gpu, self._engine(), self.quantization)

    def with_overrides(self, overrides: Mapping[str, str]) -> Self:
        """A copy with settings from a target string; UsageError names one that means nothing here."""
        for name, text in overrides.items():
            if name not in _SETTINGS:
                raise UsageError(
                    f"a single node has no setting {name!r}", where=f"twin:{self.name}",
                    fix=f"known: seed, {', '.join(sorted(_SETTINGS))}",
                )  # fmt: skip
            if name == "defect":
                _refuse_handoff(text, self.name)
        changed = Platform.with_overrides(self, overrides)
        _refuse_denied(changed)
        left = _left_bytes(changed)
        if "kv_pool_bytes" not in overrides and {"tp", "quantization"} & set(overrides):
            return replace(changed, kv_pool_bytes=left)
        if changed.kv_pool_bytes > left:
            raise UsageError(
                f"the KV pool takes {changed.kv_pool_bytes} bytes, the weights leave {left}",
                where=f"twin:{self.name}", fix="lower kv_pool_bytes, or raise tp",
            )  # fmt: skip
        return changed

    def _launch(self) -> NodeLaunch:
        return NodeLaunch(
            self.model, self.tp, quantization=self.quantization, kv_dtype=self.kv_dtype,
            block_size=self.block_size, engine=self.engine, aiter=self.aiter,
            kv_offload_bytes=self.kv_offload_bytes, vision_mode=self.vision_mode,
        )  # fmt: skip

    def _engine(self) -> Engine:
        return Engine(
            version=parse_version(self.engine), tp=self.tp, kv_dtype=self.kv_dtype,
            prefix_caching=bool(self.prefix_caching), block_size=self.block_size,
            kernel_block=1 if self.block_size < 16 else None, in_flight_tokens=self.max_num_batched_tokens,
        )  # fmt: skip


@cache
def single_node(name: str, tp: int = 0) -> SingleNode:
    """The node `PLATFORM-1n/MODEL`; with `tp` one engine of as many GPUs, of several nodes beyond those of
    one, whose fabric costs nothing here.

    Raises:
        UsageError: no such platform or model, or the model does not fit.
    """
    place, _, model = name.partition("/")
    try:
        if not place.endswith(SUFFIX):
            raise SpecError(f"{place!r} does not end in {SUFFIX}")
        gpu, found = load_platform(place.removesuffix(SUFFIX)), load_model(model)
    except K3Error as error:
        raise UsageError(
            f"no simulated node {name!r}: {error.what}", where="target",
            fix=error.fix or "write it like twin:mi325x-1n/llama-3.1-405b",
        ) from None  # fmt: skip
    launch = launch_of(found, gpu)
    launch = replace(launch, tp=tp, kv_pool_bytes=0) if tp else launch
    node = _node(f"{place}/{found.name}", gpu.name, launch)
    node = replace(node, kv_pool_bytes=launch.kv_pool_bytes or _left_bytes(node))
    return node.with_overrides({})


def single_sources(name: str) -> dict[str, str]:
    """Where each setting of a node comes from."""
    node = single_node(name)
    sources = dict(launch_of(load_model(node.model), load_platform(node.gpu)).sources)
    sources |= {f"rule {r.id}": f"{r.outcome}: {r.what} {r.fix} ({r.evidence})" for r in node.rules}
    return sources | {
        "gather_ns": "assumption: requests within 1 ms join one step",
        "jitter_ppm": "assumption: largest deviation of a step cost, parts per million",
        "bandwidth_ppm": "roofline: the whole memory rate of the data sheet",
        "compute_ppm": "roofline: the whole dense rate of the data sheet",
        "floor_ns": "roofline: nothing but reading and multiplying",
    }


def _node(name: str, gpu: str, launch: NodeLaunch) -> SingleNode:
    zero = {field.name: 0 for field in fields(Platform) if field.name.endswith(("_ns", "_ps", "_bytes"))}
    zero |= {"link_bytes_per_s": 1, "native_link_bytes_per_s": 1, "graph_sizes": 0, "c0_prompt_tokens": 0}
    known = {
        "name": name, "gpu": gpu, "model": launch.model, "lanes": 1, "tp": launch.tp, "layout": launch.layout,
        "quantization": launch.quantization, "aiter": launch.aiter, "kv_dtype": launch.kv_dtype,
        "kv_offload_bytes": launch.kv_offload_bytes, "vision_mode": launch.vision_mode,
        "block_size": launch.block_size,
        "engine": launch.engine, "max_model_len": launch.max_model_len, "max_num_seqs": launch.max_num_seqs,
        "max_num_batched_tokens": launch.max_num_batched_tokens,
        "prefill_lane_tokens": launch.max_num_batched_tokens, "prefix_caching": launch.prefix_caching,
        "gather_ns": 1_000_000, "jitter_ppm": 4000, "graph": "full", "native_graph": "full", "step_ns": 1,
        "room_bytes": 1 << 62,  # what the weights leave is checked in with_overrides
    }  # fmt: skip
    return SingleNode(**{**zero, **known})  # type: ignore[arg-type]


def _left_bytes(node: SingleNode) -> int:
    """Nine tenths of the memory, the engine's default share, less the weights; activations not counted."""
    left = load_platform(node.gpu).hbm_bytes * 9 // 10 - node.work().weight_bytes
    if left <= 0:
        raise UsageError(
            f"the weights of {node.model} do not fit {node.tp} of these GPUs", where=f"twin:{node.name}",
            fix="raise tp",
        )  # fmt: skip
    return left


def _refuse_denied(node: SingleNode) -> None:
    """The engine of this version would not start: the first rule that says so."""
    denied = next((rule for rule in node.rules if rule.outcome == "deny"), None)
    if denied is not None:
        raise UsageError(
            f"vLLM {node.engine} does not start so: {denied.what}",
            where=f"twin:{node.name}, rule {denied.id} ({denied.evidence})", fix=denied.fix,
        )  # fmt: skip


def _refuse_handoff(text: str, name: str) -> None:
    if wrong := sorted(set(rates(text)) & set(_HANDOFF)):
        raise UsageError(
            f"{', '.join(wrong)} needs two pools: a single node hands nothing over", where=f"twin:{name}"
        )
