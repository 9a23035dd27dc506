"""What a producer was seen to do: noted where it happens, read by the store when it seals.

A twin core notes `simulated` when it is made, whoever makes it. Notes go to journals: files that child
processes find through the environment, so a child's core is seen as well. What another thread or child does
at the same time may be seen too: that weakens a label, and never strengthens one.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import tempfile
from collections.abc import Callable, Hashable
from functools import lru_cache, update_wrapper
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

__all__ = ["SIMULATED", "VARIABLE", "Watch", "note", "remembered"]

SIMULATED = "simulated"
VARIABLE = "K3REPRO_OBSERVED"
P = ParamSpec("P")
R = TypeVar("R")
_own: tuple[int, str] | None = None  # descriptor and path of this process's journal


def note(what: str) -> None:
    """Write one word into the journals of this process and of those that started it."""
    line = f"{what}\n".encode()
    if _own is not None:
        os.write(_own[0], line)
    for path in _inherited():
        # Whoever opened it may have ended and taken it away: then nobody asks any more.
        with contextlib.suppress(OSError):
            handle = os.open(path, os.O_WRONLY | os.O_APPEND)
            try:
                os.write(handle, line)
            finally:
                os.close(handle)


class Watch:
    """What is noted from its making on, here and in processes started since."""

    def __init__(self) -> None:
        self._journal = _journal()
        self._start = os.fstat(self._journal).st_size

    def seen(self) -> frozenset[str]:
        """The words noted so far."""
        size = os.fstat(self._journal).st_size - self._start
        return frozenset(os.pread(self._journal, size, self._start).decode().split())


def remembered(size: int) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """`lru_cache` of `size` results; a result that comes from memory is noted as it was when it was made."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @lru_cache(maxsize=size)
        def made(*args: Hashable, **kwargs: Hashable) -> tuple[R, frozenset[str]]:
            watch = Watch()
            return function(*args, **kwargs), watch.seen()  # type: ignore[arg-type]

        def call(*args: Any, **kwargs: Any) -> R:
            value, seen = made(*args, **kwargs)
            for what in seen:
                note(what)
            return value

        return update_wrapper(call, function)

    return decorate


def _journal() -> int:
    global _own
    if _own is None:
        handle, path = tempfile.mkstemp(prefix="k3repro-observed-")
        os.close(handle)
        _own = (os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC), path)
        atexit.register(_remove, path, os.getpid())
        os.environ[VARIABLE] = os.pathsep.join([*_inherited(), path])
    return _own[0]


def _inherited() -> list[str]:
    own = _own[1] if _own else ""
    return [path for path in os.environ.get(VARIABLE, "").split(os.pathsep) if path and path != own]


def _remove(path: str, maker: int) -> None:
    if os.getpid() == maker:
        with contextlib.suppress(OSError):
            Path(path).unlink()
