"""kill -9 at random points, then resume: nothing committed is lost, nothing half-done is believed."""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from store_samples import HEADER, REQUESTS, request_rows, seal_sweep

from k3repro.errors import StoreError
from k3repro.store import Store
from k3repro.store._segments import NAME, frame, read_segments

WAVES = 200
WRITER = """
import os, sys
sys.path.insert(0, {tests!r})
from store_samples import HEADER, REQUESTS, request_rows
from k3repro.store import Store
run = Store({root!r}).begin(HEADER, REQUESTS)
for i in range({waves}):
    name = f"w{{i:02d}}"
    if name not in run.waves:
        run.commit(name, {{"requests": request_rows(20, name)}})
        os.write(1, (name + "\\n").encode())
run.seal()
os.write(1, b"sealed\\n")
"""


def _writer(root: Path) -> subprocess.Popen[bytes]:
    code = WRITER.format(tests=str(Path(__file__).parent), root=str(root), waves=WAVES)
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)


def _reference(folder: Path) -> str:
    store = Store(folder)
    with store.begin(HEADER, REQUESTS) as run:
        for i in range(WAVES):
            run.commit(f"w{i:02d}", {"requests": request_rows(20, f"w{i:02d}")})
        return run.seal().data


def test_kill_at_random_points_then_resume(tmp_path: Path) -> None:
    expected = _reference(tmp_path / "reference")
    draw, committed, store, kills = random.Random(7), set[str](), Store(tmp_path / "artifacts"), 0
    while kills < 10:
        writer = _writer(store.root)
        assert writer.stdout is not None
        # Let some waves through, then kill it anywhere in what follows: an append, or the sealing.
        lines = [writer.stdout.readline().decode().strip() for _ in range(draw.randint(1, 8))]
        time.sleep(draw.uniform(0, 0.002))
        writer.send_signal(signal.SIGKILL)
        lines += writer.stdout.read().decode().split()
        writer.stdout.close()
        kills += writer.wait() == -signal.SIGKILL
        committed |= {*lines} - {""}
        if "sealed" in committed:
            break
        kept = {segment.get("wave") for segment in read_segments(next(store.root.glob(f".wip/*/{NAME}")))[0]}
        assert committed <= kept, f"lost {committed - kept} after {kills} kills"
    assert kills >= 5, "the writer was too quick to be killed"
    assert _finish(store) == expected
    assert store.verify(full=True) == []
    assert len(store.artifacts(current=False)) == 1


def _finish(store: Store) -> str:
    with store.begin(HEADER, REQUESTS) as run:
        for i in range(WAVES):
            if (name := f"w{i:02d}") not in run.waves:
                run.commit(name, {"requests": request_rows(20, name)})
        return run.seal().data


STEPS = ["write_file", "file_sha256", "publish", "ledger", "receipt", "discard"]


@pytest.mark.parametrize("step", STEPS)
def test_killed_while_sealing(store: Store, step: str) -> None:
    """A process that dies right before each step of sealing; the next one seals the very same data."""
    expected = _reference(store.root.parent / "reference")
    pid = os.fork()
    if pid == 0:
        _die_at(step)
        _finish(store)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    assert _finish(store) == expected
    assert store.verify(full=True) == [] and len(store.artifacts(current=False)) == 1
    assert not [path for path in (store.root / ".wip").iterdir() if path.is_dir()]


def _die_at(step: str) -> None:
    from k3repro.store import _run, _sealing
    from k3repro.store._ledger import Ledger

    def die(*_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    if step == "ledger":
        Ledger.append = die  # type: ignore[method-assign,assignment]
    elif step == "discard":
        _run.Run._discard = die  # type: ignore[method-assign,assignment]
    else:
        setattr(_sealing, "write_receipt" if step == "receipt" else step, die)


@pytest.mark.parametrize("seed", range(4))
def test_torn_tail_is_dropped(store: Store, seed: int) -> None:
    draw = random.Random(seed)
    with store.begin(HEADER, REQUESTS) as run:
        run.commit("a", {"requests": request_rows(5, "a")})
        log = run.folder / NAME
        run.commit("b", {"requests": request_rows(5, "b")})
    whole, end = log.read_bytes(), len(frame({})) and read_segments(log)[1]
    border = whole.index(b"K3SEG", whole.index(b"K3SEG", 6) + 6)
    assert end == len(whole)
    cut = draw.randrange(border + 1, len(whole))
    log.write_bytes(whole[:cut] + draw.randbytes(draw.randrange(50)))
    with store.begin(HEADER, REQUESTS) as run:
        assert run.waves == ("a",)
        run.commit("b", {"requests": request_rows(5, "b")})
    assert log.read_bytes() == whole


def test_anyone_may_tail_a_run(store: Store) -> None:
    with store.begin(HEADER, REQUESTS) as run:
        run.commit("a", {"requests": request_rows(3, "a")})
        segments, _ = read_segments(run.folder / NAME)
        assert segments[1]["tables"]["requests"]["tokens"] == [0, 1, 2]
        assert not list(store.root.rglob("*.duckdb")), "no database is open during a run"


def test_full_disk_keeps_what_was_committed(store: Store) -> None:
    run = store.begin(HEADER, REQUESTS)
    run.commit("a", {"requests": request_rows(5, "a")})
    pid = os.fork()
    if pid == 0:
        os._exit(_with_little_space(store, run.folder / NAME))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    run.close()
    with store.begin(HEADER, REQUESTS) as run:
        assert run.waves == ("a",)
        run.commit("b", {"requests": request_rows(5, "b")})
        assert run.seal().row_counts == {"requests": 10}


def _with_little_space(store: Store, log: Path) -> int:
    """In a child: append, seal and chain against a limit on file size, which fails as a full disk does."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (log.stat().st_size + 100, resource.RLIM_INFINITY))
    run = next(run for run in [_adopted(store)])
    before = log.read_bytes()
    for step in (lambda: run.commit("big", {"requests": request_rows(500, "big")}), run.seal):
        try:
            step()
        except StoreError as error:
            if "disk is full" not in error.what or "committed waves are kept" not in error.fix:
                print(error)
                return 1
        else:
            return 2
    return 0 if log.read_bytes() == before else 3


def _adopted(store: Store) -> object:
    """The run of the parent, reopened without its lock (the child inherited the handle)."""
    import fcntl

    lock = fcntl.flock
    fcntl.flock = lambda *_: None  # type: ignore[assignment]
    run = store.begin(HEADER, REQUESTS)
    fcntl.flock = lock
    return run


def test_two_processes_seal_at_once(store: Store) -> None:
    """Different runs sealed at the same time chain into one ledger."""
    import dataclasses

    children = []
    for i in range(3):
        pid = os.fork()
        if pid == 0:
            seal_sweep(store, header=dataclasses.replace(HEADER, parameters={"i": i}))
            os._exit(0)
        children.append(pid)
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children] == [0, 0, 0]
    assert len(store.artifacts()) == 3 and store.verify(full=True) == []
    assert len(store.heads()) == 1
