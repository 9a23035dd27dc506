"""The ledger: one small JSON file per entry, named by the SHA-256 of its bytes, parents = the heads it saw.

Two ledgers merge by taking the union of their files. An entry that anything descends from cannot be changed
or removed without a trace; the newest one is guarded by the heads that sites and badges print.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from k3repro.store._files import write_atomic

KINDS = ("seal", "supersession", "retraction", "removal")
MAX_ENTRY_BYTES = 1_000_000
_NO_TEXT = re.compile("[\ud800-\udfff\0]")
_TEXTS = ("kind", "seal")
_SEAL_TEXTS = ("file", "file_sha256", "data", "name", "subject", "tier", "basis", "run_id", "clock")


@dataclass(frozen=True, slots=True)
class Entry:
    """A ledger entry; `depth` is its longest distance from a root, which orders entries without clocks."""

    id: str
    kind: str
    parents: tuple[str, ...]
    body: Mapping[str, Any]
    depth: int

    @property
    def seal(self) -> str:
        """The artifact the entry is about."""
        return str(self.body.get("seal", ""))


class Ledger:
    """The entries below `folder`, re-read when files came or went."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._raw: dict[str, Mapping[str, Any]] = {}
        self._names: frozenset[str] = frozenset()
        self._entries: dict[str, Entry] = {}

    def entries(self) -> dict[str, Entry]:
        """All readable entries by id, parents first, then older before newer."""
        found = os.listdir(self.folder) if self.folder.is_dir() else []  # noqa: PTH208
        names = frozenset(name.removesuffix(".json") for name in found if name.endswith(".json"))
        if names != self._names:
            raw = {
                name: self._raw[name] if name in self._raw else _load(self.folder / f"{name}.json")
                for name in names
            }
            self._raw = {name: value for name, value in raw.items() if value is not None}
            self._entries, self._names = _ordered(self._raw), names
        return self._entries

    def heads(self) -> list[str]:
        """Entries that no other entry names as a parent, sorted."""
        entries = self.entries()
        named = {parent for entry in entries.values() for parent in entry.parents}
        return sorted(set(entries) - named)

    def ancestors(self, ids: Iterable[str]) -> set[str]:
        """The given entries and everything they descend from, as far as it exists."""
        entries, found, open_ = self.entries(), set[str](), list(ids)
        while open_:
            name = open_.pop()
            if name in entries and name not in found:
                found.add(name)
                open_.extend(entries[name].parents)
        return found

    def append(self, kind: str, body: Mapping[str, Any]) -> str:
        """Write an entry on top of the current heads; returns its id."""
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        entry = {"format": 1, "kind": kind, "at": now, "parents": self.heads(), **body}
        data = (
            json.dumps(entry, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        ).encode()
        name = hashlib.sha256(data).hexdigest()
        write_atomic(self.folder / f"{name}.json", data)
        return name


def _load(path: Path) -> Mapping[str, Any] | None:
    """An entry whose fields have the types that everything below relies on; None for anything else."""
    try:
        value = json.loads(path.read_bytes()) if is_entry_file(path) else None
    except (OSError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and _sound(value) else None


def is_entry_file(path: Path) -> bool:
    """Whether a path can be an entry at all: a small regular file, no link, pipe or folder."""
    return not path.is_symlink() and path.is_file() and path.stat().st_size <= MAX_ENTRY_BYTES


def _sound(value: Mapping[str, Any]) -> bool:
    required = (*_TEXTS, *_SEAL_TEXTS) if value.get("kind") == "seal" else _TEXTS
    texts = all(isinstance(value.get(name), str) and _is_text(value[name]) for name in required)
    optional = all(isinstance(value.get(name, ""), str) for name in ("by", "reason", "at"))
    lists = all(_is_text_list(value.get(name, [])) for name in ("inputs", "supersedes"))
    return texts and optional and lists and _is_text_list(value.get("parents"))


def _is_text(value: str) -> bool:
    return _NO_TEXT.search(value) is None


def _is_text_list(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) and _is_text(item) for item in value)


def _ordered(raw: Mapping[str, Mapping[str, Any]]) -> dict[str, Entry]:
    """Every entry with its depth; each parent that is named is looked at once, however many there are."""
    depths: dict[str, int] = {}
    for start in raw:
        stack, above = [(start, iter(raw[start]["parents"]))], {start}
        while stack and start not in depths:
            name, parents = stack[-1]
            for parent in parents:
                if parent in raw and parent not in depths and parent not in above:
                    stack.append((parent, iter(raw[parent]["parents"])))
                    above.add(parent)
                    break
            else:
                known = (depths.get(parent, 0) for parent in raw[name]["parents"])
                depths[name] = 1 + max(known, default=0)
                above.discard(stack.pop()[0])
    order = sorted(raw, key=lambda name: (depths[name], str(raw[name].get("at", "")), name))
    return {
        n: Entry(n, str(raw[n].get("kind", "")), tuple(raw[n]["parents"]), raw[n], depths[n]) for n in order
    }
