"""Log lines in the engine's form: who speaks, level, wall time, place, text. Standard output, unbuffered."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

__all__ = ["Log", "log_to"]

Log = Callable[..., None]


def log_to(write: Callable[[str], object] = sys.stdout.write) -> Log:
    """A log that writes through `write`: ``log(text, lane=None, level="INFO", place="core.py")``."""

    def log(
        text: str, *, lane: int | None = None, api: int | None = None, level: str = "INFO",
        place: str = "core.py:1",
    ) -> None:  # fmt: skip
        who = f"ApiServer_{api}" if api is not None else f"EngineCore_DP{lane}" if lane is not None else ""
        prefix = f"({who} pid={os.getpid()}) " if who else ""
        stamp = time.strftime("%m-%d %H:%M:%S")
        write(f"{prefix}{level} {stamp} [{place}] {text}\n")
        sys.stdout.flush()

    return log
