"""kill -9 at any moment of a ladder: in the end the same comes of it; each kill costs one wave at most."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from k3repro.probes import Silent, run_probe
from k3repro.store import Store
from k3repro.store._segments import NAME, read_segments

LADDER: dict[str, dict[str, Any]] = {
    "envelope": {"isl": 400, "osl": 8, "concurrency": (1, 2, 4, 8), "waves": 2},
    "needle-gate": {"context": 1000, "concurrency": (1, 2, 4, 2, 1, 4)},
}
KILLS = 12


class Diary(Silent):
    """Writes what a run tells of its waves where a parent can read it after the child was killed."""

    def __init__(self, path: Path) -> None:
        self.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def started(self, rung: Any) -> None:
        os.write(self.file, f"started {rung.name}\n".encode())

    def finished(self, row: Any, *, resumed: bool = False) -> None:
        os.write(self.file, f"finished {row['rung']}\n".encode())


def climb(root: Path, name: str, diary: Path) -> None:
    run_probe(
        name, target="twin:mi325x", store=Store(root), unsafe=True, progress=Diary(diary), **LADDER[name]
    )


def child(root: Path, name: str, diary: Path) -> int:
    """The ladder in a forked process, which ends with 0 when it is sealed."""
    process = os.fork()
    if process == 0:
        code = 1
        try:
            climb(root, name, diary)
            code = 0
        finally:
            os._exit(code)
    return process


def committed(root: Path) -> list[str]:
    """Names of the waves that lie in the log of the one unfinished run."""
    logs = list((root / ".wip").glob(f"*/{NAME}"))
    segments, _ = read_segments(logs[0]) if logs else ([], 0)
    return [str(segment["wave"]) for segment in segments[1:]]


def lines(diary: Path) -> list[str]:
    """What the run has told so far, whole lines only."""
    return diary.read_text().split("\n")[:-1] if diary.exists() else []


def killed(process: int, diary: Path, after: int, delay_s: float) -> bool:
    """Kill the child `delay_s` after it told `after` things; False when it had ended well by then."""
    while len(lines(diary)) < after:
        done, status = os.waitpid(process, os.WNOHANG)
        if done:
            assert status == 0
            return False
        time.sleep(0.001)
    time.sleep(delay_s)
    os.kill(process, signal.SIGKILL)
    _, status = os.waitpid(process, 0)
    return os.WIFSIGNALED(status)


@pytest.mark.parametrize("name", sorted(LADDER))
def test_killed_anywhere_and_often_a_ladder_loses_a_wave_a_kill_at_most(name: str, tmp_path: Path) -> None:
    whole, root, told = tmp_path / "whole", tmp_path / "killed", tmp_path / "whole.diary"
    climb(whole, name, told)  # here, so that its forks find imported and read what takes longer than a ladder
    most, draw, kills, before = len(lines(told)), random.Random(name), 0, 0
    for attempt in range(KILLS):
        diary = tmp_path / f"{attempt}.diary"
        after, delay_s = draw.randrange(most - 2), draw.uniform(0.0, 0.01)
        kills += killed(child(root, name, diary), diary, after, delay_s)
        waves = committed(root)
        names = {kind: {line.split(" ", 1)[1] for line in lines(diary) if line.startswith(kind)}
                 for kind in ("started", "finished")}  # fmt: skip
        assert len(waves) >= before, "a committed wave is gone"
        assert names["finished"] <= set(waves), "a wave that was told as done is not kept"
        assert len(names["started"] - set(waves)) <= 1, "more than the wave in flight is lost"
        before = len(waves)
    assert kills == KILLS
    os.waitpid(child(root, name, tmp_path / "last.diary"), 0)
    (resumed,), (uninterrupted,) = Store(root).artifacts(), Store(whole).artifacts()
    assert resumed.data == uninterrupted.data and resumed.verdict == uninterrupted.verdict
