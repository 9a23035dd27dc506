"""A deployment to try: pools of the published shape, and the settings of their engines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Any

from k3repro.errors import UsageError
from k3repro.spec import Layout, load_layout
from k3repro.twin import Platform, platform

__all__ = ["Candidate", "Settings", "layout_of", "levers", "published", "space"]

_COUNTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
_SEQS = (8, 16, 32)
"""Slots a lane that the publication ran (Table 4)."""
_HEAPS = (8 << 30, 16 << 30)
"""Shared heaps of the recipes, MI300X and MI325X; what a smaller one does to speed is not known."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the engines of both pools are launched with; bytes are per GPU."""

    max_num_seqs: int
    kv_pool_bytes: int
    heap_bytes: int
    max_num_batched_tokens: int
    prefix_caching: bool
    kv_splits: str

    def overrides(self) -> dict[str, str]:
        """The same as settings of a twin target."""
        return {
            "max_num_seqs": str(self.max_num_seqs), "kv_pool_bytes": str(self.kv_pool_bytes),
            "heap_bytes": str(self.heap_bytes), "prefill_lane_tokens": str(self.max_num_batched_tokens),
            "prefix_caching": str(int(self.prefix_caching)), "kv_splits": self.kv_splits,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Candidate:
    """`replicas` deployments that do not interact, each with its own router before `prefill_pools` and
    `decode_pools` pools of `nodes_per_pool` nodes (xPyD in pools).

    `untested` names the settings that no publication ran on this platform; empty: all were.
    """

    platform: str
    prefill_pools: int
    decode_pools: int
    nodes_per_pool: int
    settings: Settings
    untested: tuple[str, ...] = ()
    replicas: int = 1

    @property
    def nodes(self) -> int:
        """Nodes of all pools of all replicas."""
        return self.replicas * self.nodes_per_pool * (self.prefill_pools + self.decode_pools)

    @property
    def shape(self) -> str:
        """Nodes of prefill and decode, as the field writes it: 2P4D, or 3 x 2P4D for three replicas."""
        one = f"{self.prefill_pools * self.nodes_per_pool}P{self.decode_pools * self.nodes_per_pool}D"
        return one if self.replicas == 1 else f"{self.replicas} x {one}"

    def twin(self, constants: dict[str, str] | None = None) -> Platform:
        """The simulated platform, with other constants where given.

        Raises:
            UsageError: heap, pool and graphs do not fit beside the weights, or no request fits the pool.
        """
        return platform(self.platform).with_overrides(
            {**self.settings.overrides(), "jitter_ppm": "0", **(constants or {})}
        )

    def as_dict(self) -> dict[str, Any]:
        """JSON data."""
        return {
            "platform": self.platform, "nodes": self.nodes, "shape": self.shape, "replicas": self.replicas,
            "prefill_pools": self.prefill_pools, "decode_pools": self.decode_pools,
            **asdict(self.settings), "untested": list(self.untested),
        }  # fmt: skip


@cache
def layout_of(name: str) -> Layout:
    """The published layout behind a simulated platform."""
    return load_layout(platform(name).layout)


def published(name: str, *, prefix_caching: bool = False) -> Candidate:
    """The smallest deployment with the published settings: one pool of each kind."""
    spec, layout = platform(name), layout_of(name)
    settings = Settings(
        spec.max_num_seqs, spec.kv_pool_bytes, spec.heap_bytes, spec.prefill_lane_tokens, prefix_caching,
        spec.kv_splits,
    )  # fmt: skip
    return Candidate(name, 1, 1, layout.decode_nodes, settings)


def space(
    name: str, users: int, most_nodes: int, *, prefix_caching: bool = False, uniform: bool = True
) -> Iterator[Candidate]:  # fmt: skip
    """Candidates with settings that were run, fewest nodes first; none that is another one in all it does.

    Slots beyond the requests of a lane change nothing, nor does a replica more where the most users of one
    stay as many, nor, where requests are equal (`uniform`) and so keep step, a pool more than all lanes
    that have a request at a time. `users` is the most that can be in flight.
    """
    base = published(name, prefix_caching=prefix_caching)
    lanes, most_pools = platform(name).lanes, most_nodes // base.nodes_per_pool
    found: list[Candidate] = []
    for replicas in range(1, min(users, most_pools // 2) + 1):
        share = -(-users // replicas)
        if replicas > 1 and share == -(-users // (replicas - 1)):
            continue
        busy = -(-share // lanes)
        useful = [
            n for n, fewer in zip(_COUNTS, (0, *_COUNTS[:-1]), strict=True) if fewer < busy or not uniform
        ]
        for x, y in ((x, y) for x in useful for y in useful if replicas * (x + y) <= most_pools):
            enough = -(-share // (y * lanes))
            for seqs in sorted({*_SEQS, base.settings.max_num_seqs}):
                if seqs == _SEQS[0] or enough > seqs // 2:
                    settings = replace(base.settings, max_num_seqs=seqs)
                    one = replace(base, prefill_pools=x, decode_pools=y, settings=settings)
                    found.append(replace(one, replicas=replicas))
    yield from sorted(found, key=lambda one: one.nodes)


def levers(candidate: Candidate, *, reuse: bool) -> Iterator[Candidate]:
    """The same deployment with settings nobody has published a run with on this platform, one at a time.

    Prefix caching is one only where prompts are seen again (`reuse`). The heap of the other platform comes
    with the KV pool that it leaves room for.
    """
    spec, now = platform(candidate.platform), candidate.settings

    def pool_beside(heap: int) -> int:
        return (spec.room_bytes - heap - spec.graph_bytes) // 10**9 * 10**9

    changed = [
        replace(now, kv_splits="chosen"),
        *(replace(now, heap_bytes=heap, kv_pool_bytes=pool_beside(heap)) for heap in _HEAPS),
        replace(now, max_num_batched_tokens=4096),
    ]
    if reuse:
        changed.append(replace(now, prefix_caching=not now.prefix_caching))
    for settings in dict.fromkeys(changed):
        names = tuple(name for name, value in asdict(settings).items() if value != getattr(now, name))
        if not names:
            continue
        trial = replace(candidate, settings=settings, untested=names)
        try:
            trial.twin()
        except UsageError:
            continue
        yield trial
