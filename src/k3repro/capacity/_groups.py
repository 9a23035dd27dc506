"""Layer groups: which layers share a pool block, how wide the widest group is on each pipeline stage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from k3repro.capacity._caches import CacheLayer
from k3repro.capacity._engine import Engine, ceil_div, fold_limit
from k3repro.errors import InputError
from k3repro.spec import stage_layers


@dataclass(frozen=True, slots=True)
class Group:
    """Layers that share block ids. `pages` pairs each layer's index with its page in bytes."""

    kind: str
    label: str
    block_tokens: int
    pages: tuple[tuple[int, int], ...]
    window: int | None = None

    @property
    def page_bytes(self) -> int:
        """Page of one layer, the largest if they differ."""
        return max(page for _, page in self.pages)

    @property
    def bytes(self) -> int:
        """Bytes of one block over all layers of the group."""
        return sum(page for _, page in self.pages)

    def grows(self, mode: str, in_flight: int) -> bool:
        """Whether a longer request needs more blocks of this group without end."""
        return self.kind == "full" or (self.kind == "state" and mode == "all")

    def as_dict(self) -> dict[str, object]:
        """The group as JSON data."""
        return {
            "kind": self.kind,
            "label": self.label,
            "layers": len(self.pages),
            "block_tokens": self.block_tokens,
        }


def group_layers(caches: Sequence[CacheLayer], engine: Engine, block: int) -> tuple[Group, ...]:
    """Bucket layers by identical spec and cut buckets into groups of one size.

    Raises:
        InputError: page sizes that the engine version cannot make equal.
    """
    buckets: dict[tuple[object, ...], list[CacheLayer]] = {}
    for cache in caches:
        buckets.setdefault(cache.key, []).append(cache)
    if all(cache.kind == "full" for cache in caches):
        return (_uniform(caches, block),)
    page, blocks = _unify(list(buckets.values()), engine, block)
    smallest, largest = min(map(len, buckets.values())), max(map(len, buckets.values()))
    size = largest if largest < fold_limit(engine.version) * smallest else smallest
    groups = []
    for (key, layers), tokens in zip(buckets.items(), blocks, strict=True):
        count = ceil_div(len(layers), size)
        for start in range(count):
            chosen = layers[start::count]
            pages = tuple((cache.layer, page) for cache in chosen)
            groups.append(Group(str(key[0]), chosen[0].label, tokens, pages, chosen[0].window))
    return tuple(groups)


def _uniform(caches: Sequence[CacheLayer], block: int) -> Group:
    """Growing attention only: one group whose pages may differ, so a pool block is their sum."""
    pages = tuple((cache.layer, block * cache.size) for cache in caches)
    return Group("full", caches[0].label, block, pages)


def _unify(buckets: Sequence[Sequence[CacheLayer]], engine: Engine, block: int) -> tuple[int, list[int]]:
    """One page size for all buckets: bigger blocks where that divides, padding where the version pads."""
    natural = [bucket[0].size if bucket[0].kind == "state" else block * bucket[0].size for bucket in buckets]
    rows = [page for bucket, page in zip(buckets, natural, strict=True) if bucket[0].kind != "state"]
    page = max(natural)
    if rows and page > rows[0] and len(rows) < len(natural) and engine.version < (0, 24, 0):
        raise InputError("state pages are padded to a drafter's larger page only from vLLM 0.24")
    blocks = []
    for bucket, size in zip(buckets, natural, strict=True):
        if bucket[0].kind == "state" or size == page:
            blocks.append(block)
        elif page % size == 0 and engine.version >= (0, 12, 0):
            blocks.append(block * (page // size))
        elif bucket[0].label != "mla" and engine.version >= (0, 29, 0):
            blocks.append(block)
        else:
            raise InputError(
                f"pages of {bucket[0].label} layers ({size} B) cannot be made {page} B in this version",
                fix="Such a model does not start, or packs in a way that is not modelled.",
            )
    return page, blocks


def stage_bytes(groups: Sequence[Group], pp: int, layers: int) -> tuple[int, ...]:
    """Bytes of a pool block on each stage: every group projected to the stage, then the widest."""
    if pp == 1:
        return (max(group.bytes for group in groups),)
    stages = stage_layers(layers, pp)
    last = len(stages) - 1
    widest = []
    for number, held in enumerate(stages):
        sizes = [
            sum(page for layer, page in group.pages if layer in held or (number == last and layer >= layers))
            for group in groups
        ]
        widest.append(max(sizes))
    if min(widest) == 0:
        raise InputError("a pipeline stage without any cache is not modelled")
    return tuple(widest)
