"""The log of a run while it runs: `artifacts/.wip/RUN/segments.jsonl`, one fsynced frame per commit.

A frame is two lines, ``K3SEG <payload bytes> <sha256 of the payload>`` and the payload (JSON). Anyone may
tail it. A torn tail, which only a killed writer leaves, is dropped when the writer comes back.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from k3repro.store._files import disk_errors, sync
from k3repro.store._schema import canonical_json

MAGIC = b"K3SEG"
NAME = "segments.jsonl"


def frame(value: Any) -> bytes:
    """One framed segment."""
    payload = canonical_json(value).encode()
    head = b"%s %d %s\n" % (MAGIC, len(payload), hashlib.sha256(payload).hexdigest().encode())
    return head + payload + b"\n"


def read_segments(path: Path) -> tuple[list[Any], int]:
    """The complete segments of a log, and the byte length they cover."""
    data = path.read_bytes() if path.exists() else b""
    values, end = [], 0
    for value, stop in _frames(data):
        values.append(value)
        end = stop
    return values, end


def _frames(data: bytes) -> Iterator[tuple[Any, int]]:
    position = 0
    while (newline := data.find(b"\n", position)) >= 0:
        head = data[position:newline].split(b" ")
        if len(head) != 3 or head[0] != MAGIC or not head[1].isdigit():
            return
        start, stop = newline + 1, newline + 1 + int(head[1])
        payload = data[start:stop]
        if data[stop : stop + 1] != b"\n" or hashlib.sha256(payload).hexdigest().encode() != head[2]:
            return
        value = json.loads(payload)
        if not isinstance(value, dict):
            return
        yield value, stop + 1
        position = stop + 1


def append_segment(path: Path, value: Any, end: int) -> int:
    """Write a frame at byte `end` (dropping what stands after it), fsync, and return the new end."""
    data = frame(value)
    new = not path.exists()
    with disk_errors(path):
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            os.ftruncate(handle, end)
            _write_all(handle, data, end)
            os.fsync(handle)
        except OSError:
            os.ftruncate(handle, end)
            raise
        finally:
            os.close(handle)
        if new:
            sync(path.parent)
    return end + len(data)


def _write_all(handle: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(handle, view, offset)
        view, offset = view[written:], offset + written
