"""What a build made before, under the digest of all it was made from.

The folder is the builder's own scratch and may be deleted at any time: a build gives the same bytes with and
without it. An audit has none, and makes everything.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from k3repro.report._files import write_changed
from k3repro.report._markup import canonical_json, sha256

__all__ = ["DRAWING", "KEPT", "Kept"]

T = TypeVar("T")
MOST_BYTES = 400_000_000
DRAWING = "drawing"  # a function of its key alone, so memory keeps it for good


class Kept:
    """Values in memory, and in a folder while one is open.

    A value has a key, and may have facts: what else it was made from, which is only known once it is made.
    """

    def __init__(self) -> None:
        self.folder: Path | None = None
        self._only = ""
        self._memory: dict[str, tuple[Mapping[str, str], Any]] = {}

    @contextmanager
    def open(self, folder: Path, *, only: str = "") -> Iterator[None]:
        """Keep values in a folder, up to a size. only: look for values of this kind, and write none."""
        self.folder, self._only = folder, only
        try:
            yield
            if not only:
                _drop_oldest(folder)
        finally:
            self.folder = None
            self._memory = {name: item for name, item in self._memory.items() if name.startswith(DRAWING)}

    def get(self, kind: str, key: Any, make: Callable[[], T]) -> T:
        """The value of a key that says all it depends on."""
        return self.read(kind, key, str, lambda: (make(), ()))

    def read(
        self, kind: str, key: Any, now: Callable[[str], str], make: Callable[[], tuple[T, Iterable[str]]]
    ) -> T:
        """The value of a key; `make` gives it with the names of its facts, `now` the digest of a fact."""
        found: T | None = self.find(kind, key, now)
        if found is not None:
            return found
        value, facts = make()
        return self.put(kind, key, value, {fact: now(fact) for fact in facts})

    def find(self, kind: str, key: Any, now: Callable[[str], str] = str) -> Any:
        """The value of a key, if each of its facts has the digest that `now` gives; else None."""
        name = _name(kind, key)
        facts, value = self._memory.get(name) or self._load(kind, name) or ({}, None)
        return value if all(now(fact) == digest for fact, digest in facts.items()) else None

    def put(self, kind: str, key: Any, value: T, facts: Mapping[str, str] | None = None) -> T:
        """Keep a value; facts: digests of what it was made from beside its key."""
        name = _name(kind, key)
        self._memory[name] = (facts or {}, value)
        if self.folder and not self._only:
            write_changed(self.folder / name, pickle.dumps(self._memory[name]))
        return value

    def _load(self, kind: str, name: str) -> tuple[Mapping[str, str], Any] | None:
        if self.folder is None or self._only not in ("", kind):
            return None
        path = self.folder / name
        try:
            item: tuple[Mapping[str, str], Any] = pickle.loads(path.read_bytes())
            os.utime(path)
        except (
            OSError,
            ValueError,
            EOFError,
            pickle.UnpicklingError,
            AttributeError,
            ImportError,
            IndexError,
        ):
            return None
        self._memory[name] = item
        return item


def _drop_oldest(folder: Path) -> None:
    """Remove what was not used for longest, until the folder holds no more than it may."""
    sizes = {path: path.stat() for path in folder.glob("*/*")}
    total = sum(stat.st_size for stat in sizes.values())
    for path in sorted(sizes, key=lambda path: sizes[path].st_mtime_ns):
        if total <= MOST_BYTES:
            return
        total -= sizes[path].st_size
        path.unlink(missing_ok=True)


def _name(kind: str, key: Any) -> str:
    return f"{kind}/{sha256(canonical_json(key))}"


KEPT = Kept()
