"""A checkpoint's inventory from headers on disk, on a server, or from a spec alone."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from k3repro.budget._buckets import Bucketer, Inventory
from k3repro.budget._inventory import tensors_of
from k3repro.budget._read import read_headers
from k3repro.spec import Model


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """An inventory and where it was read. `header_bytes` is what was read; None for a spec."""

    source: str
    inventory: Inventory
    shards: int | None
    header_bytes: int | None


def checkpoint_of_headers(
    source: str, model: Model | None = None, *, progress: Callable[[str], None] | None = None
) -> Checkpoint:
    """Read headers only, one shard at a time. `model` adds the kinds of layers its names leave open.

    Raises:
        InputError, TargetError: from reading.
    """
    with _no_collector():
        return _collect(source, model, progress)


@contextmanager
def _no_collector() -> Iterator[None]:
    # Millions of small tuples and no cycle among them: the cyclic collector would walk them all, for nothing.
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


def _collect(source: str, model: Model | None, progress: Callable[[str], None] | None) -> Checkpoint:
    bucketer = Bucketer(model)
    shards = read = 0
    for header in read_headers(source, progress=progress):
        bucketer.add(header.entries)
        shards += 1
        read += 8 + header.header_bytes
    return Checkpoint(source, bucketer.inventory(), shards, read)


def checkpoint_of_model(model: Model) -> Checkpoint:
    """The inventory that a model's spec implies, with no file at all.

    Raises:
        SpecError: the spec does not describe this family's tensors far enough.
    """
    bucketer = Bucketer(model)
    experts = model.moe.experts if model.moe else 1
    for entry in tensors_of(model, one_expert=True):
        bucketer.count(entry, experts if ".experts.0." in entry.name else 1, [entry.name])
    return Checkpoint(f"spec:{model.name}", bucketer.inventory(), model.shards, None)
