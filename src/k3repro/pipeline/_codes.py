"""Code hashes of the modules a stage declares, remembered while no file of their closure was touched."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import k3repro
from k3repro.pipeline._files import write_atomic
from k3repro.store import code_closure, code_hash

_PACKAGE = str(Path(k3repro.__file__).parent)


class Codes:
    """`store.code_hash` with a memory: parsing fifty modules costs a second, statting them nothing."""

    def __init__(self, memory: Path) -> None:
        self.memory = memory
        self.known: dict[str, Any] = _load(memory)

    def hash_of(self, module: str) -> str:
        """The code hash of a module and its closure; "" when there is no such module."""
        entry = self.known.get(module)
        if entry is None or _touched(entry):
            entry = _measure(module)
            self.known[module] = entry
            write_atomic(self.memory, json.dumps(self.known, sort_keys=True).encode())
        return str(entry["hash"])

    def sources(self, module: str) -> dict[str, str]:
        """Digest of the text of each module in the closure, to say which one changed."""
        self.hash_of(module)
        return {name: file["digest"] for name, file in self.known[module]["files"].items()}


def _touched(entry: Mapping[str, Any]) -> bool:
    return any(_path(name) is None or _stamp(name) != file["stamp"] for name, file in entry["files"].items())


def _measure(module: str) -> dict[str, Any]:
    digest = code_hash(module)
    names = code_closure(module) if digest else []
    files = {name: {"stamp": _stamp(name), "digest": _digest(name)} for name in names}
    return {"hash": digest, "files": files}


def _path(module: str) -> str | None:
    """The file of a module of this package; other modules are hashed anew each time.

    As text: a fresh pipeline asks sixty times for two hundred modules.
    """
    first, *rest = module.split(".")
    if first != k3repro.__name__:
        return None
    base = os.path.join(_PACKAGE, *rest)  # noqa: PTH118
    return f"{base}/__init__.py" if os.path.isdir(base) else f"{base}.py"  # noqa: PTH112


def _stamp(module: str) -> list[int] | None:
    path = _path(module)
    try:
        stat = os.stat(path) if path else None  # noqa: PTH116
    except OSError:
        return None
    return [stat.st_mtime_ns, stat.st_size, stat.st_ino] if stat else None


def _digest(module: str) -> str:
    path = _path(module)
    return hashlib.sha256(Path(path).read_bytes()).hexdigest() if path and Path(path).is_file() else ""


def _load(memory: Path) -> dict[str, Any]:
    try:
        known = json.loads(memory.read_bytes())
    except (OSError, ValueError):
        return {}
    fits = isinstance(known, dict) and all(isinstance(entry, Mapping) for entry in known.values())
    # An unknown module has no files to watch, so it is never remembered.
    return {name: entry for name, entry in known.items() if entry.get("files")} if fits else {}
