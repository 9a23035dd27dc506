"""A ledger made to be slow or large: what it costs grows with its size and no faster."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from typing import Any

from k3repro.store._ledger import Entry, _ordered
from k3repro.store._state import State


class Counted(list[str]):
    """Parents of an entry, and how many of them were looked at."""

    looked = 0

    def __iter__(self) -> Iterator[str]:
        for item in super().__iter__():
            Counted.looked += 1
            yield item


def entry(parents: list[str]) -> dict[str, Any]:
    return {"kind": "seal", "parents": Counted(parents)}


def test_each_parent_is_looked_at_a_few_times() -> None:
    """A chain whose every entry names all before it."""
    names = [f"{i:04}" for i in range(300)]
    found = _ordered({name: entry(names[:i]) for i, name in reversed([*enumerate(names)])})
    assert [item.depth for item in found.values()] == [*range(1, 301)]
    assert Counted.looked < 4 * 300 * 299 // 2


def test_entries_that_name_each_other_end() -> None:
    found = _ordered({"a": entry(["b"]), "b": entry(["a", "c"]), "c": entry(["c", "gone"])})
    assert sorted(found) == ["a", "b", "c"]


def test_a_long_way_to_a_retraction_is_kept_once() -> None:
    """Each artifact derived from the one before, the first of them retracted."""
    body = [{"seal": f"s{i}", "inputs": [f"s{i - 1}"] if i else []} for i in range(4000)]
    entries = [Entry(f"e{i}", "seal", (), item, i) for i, item in enumerate(body)]
    state = State.of([*entries, Entry("r", "retraction", (), {"seal": "s0", "reason": "wrong"}, 4000)])
    tracemalloc.start()
    withdrawn = state.withdrawn()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(withdrawn) == 4000 and peak < 5_000_000
    assert withdrawn["s3999"].chain == tuple(f"s{i}" for i in range(3999, -1, -1))
    assert str(withdrawn["s1"]) == "s1 <- s0: wrong" and repr(withdrawn["s3999"])
