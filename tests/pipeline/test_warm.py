"""Kernels that are forked: what ends them, and when their parent is not used again."""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from k3repro.pipeline import _warm


def _kernel(folder: Path) -> _warm.Forked:
    with (folder / "log").open("wb") as log:
        return _warm.fork_kernel(["-f", str(folder / "kernel.json")], dict(os.environ), str(folder), log)


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


def test_a_kernel_ends_with_the_worker_that_asked_for_it(tmp_path: Path) -> None:
    kernel = _kernel(tmp_path)
    assert kernel.poll() is None and os.getpgid(kernel.pid) == kernel.pid
    kernel._line.close()
    kernel._socket.close()
    with suppress(ProcessLookupError, FileNotFoundError):
        while True:  # a hang is the failure
            os.kill(kernel.pid, 0)
            _parent(kernel.pid)
            time.sleep(0.01)


def test_two_kernels_have_one_parent_and_a_kill_is_told(tmp_path: Path) -> None:
    kernels = []
    for name in "ab":
        (tmp_path / name).mkdir()
        kernels.append(_kernel(tmp_path / name))
    assert len({_parent(_parent(kernel.pid)) for kernel in kernels}) == 1
    for kernel in kernels:
        kernel.kill()
        assert kernel.wait() == -9 == kernel.poll()


def test_code_that_was_edited_is_imported_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stage is recorded with the code that stands on disk, so it must not run what was imported before."""
    stamps = iter([{"a.py": 1}, {"a.py": 1}, {"a.py": 2}])
    forked: list[int] = []

    def fork() -> int:
        forked.append(1)
        return os.posix_spawn("/bin/true", ["true"], {})

    monkeypatch.setattr(_warm, "_import", lambda: None)
    monkeypatch.setattr(_warm.gc, "freeze", lambda: None)
    monkeypatch.setattr(_warm, "_stamps", lambda: next(stamps))
    monkeypatch.setattr(_warm.signal, "signal", lambda *_: None)
    monkeypatch.setattr(_warm.os, "fork", fork)
    asking, control = socket.socketpair()
    with asking, control, Path(os.devnull).open() as nothing:
        for _ in range(2):
            socket.send_fds(asking, [b"k"], [nothing.fileno(), nothing.fileno()])
        _warm.main(control)
    assert len(forked) == 1


def test_without_a_warm_process_a_kernel_starts_as_usual(
    monkeypatch: pytest.MonkeyPatch, project: Any
) -> None:
    def refused(*_: Any) -> None:
        raise OSError("no more processes")

    monkeypatch.setattr("k3repro.pipeline._engine.fork_kernel", refused)
    project.stage("good")
    assert project.run(executor="inline").ok
