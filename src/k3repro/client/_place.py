"""A short mark that tells two addresses apart without naming either: no address reaches an artifact by it."""

from __future__ import annotations

import hashlib
import os
import secrets
from pathlib import Path

__all__ = ["place_mark"]


def place_mark(address: str) -> str:
    """Four hex digits of an address and of this user's own secret: the same here every time, and on another
    machine, where ``localhost`` is another server, a different one.
    """
    return hashlib.blake2b(address.encode(), key=_secret(), digest_size=2).hexdigest()


def _secret() -> bytes:
    base = os.environ.get("K3REPRO_STATE") or os.environ.get("XDG_STATE_HOME")
    file = (Path(base) if base else Path.home() / ".local" / "state") / "k3repro" / "place"
    try:
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(secrets.token_bytes(16))
        return file.read_bytes()[:64]
    except OSError:  # no home that can be written: the machine's own id, where it has one
        return os.uname().nodename.encode()[:64]
