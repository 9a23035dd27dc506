"""Files that survive a crash: fsync of file and folder, atomic rename, one-line errors for a full disk."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from k3repro.errors import StoreError


def sync(path: Path) -> None:
    """fsync a file or a folder."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_atomic(path: Path, data: bytes) -> None:
    """Write `data` so that `path` is either absent (or old) or complete, also after a power cut."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("wb") as handle:
                handle.write(data)
                handle.flush()
                os.fsync(handle.fileno())
            temporary.replace(path)
            sync(path.parent)
        finally:
            temporary.unlink(missing_ok=True)


def publish(temporary: Path, path: Path) -> None:
    """Move a finished file to its name: fsync file, rename, fsync folder."""
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        sync(temporary)
        temporary.replace(path)
        sync(path.parent)


def file_sha256(path: Path) -> str:
    """The SHA-256 of a file's bytes."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn an OSError into one line that says what to do."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise StoreError(
                "the disk is full", where=str(path), fix="Free space and run again: committed waves are kept."
            ) from None
        raise StoreError(
            f"cannot write: {error.strerror or error}",
            where=str(path),
            fix="Check that the folder exists and may be written.",
        ) from None


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Wait for, and hold, an exclusive lock file."""
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
