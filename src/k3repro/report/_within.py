"""An audit within bounds: a process of its own, watched ended with all it started when it takes too much.

Whatever a folder holds, its audit ends: inner bounds name the file that costs too much; this one holds for
what nobody thought of. Time has to be spent both by the clock and by two processors, so that a busy or a slow
machine is no finding.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import k3repro
from k3repro.errors import K3Error
from k3repro.report._audit import SiteAudit, audit_site
from k3repro.report._finding import found

__all__ = ["Spent", "audit_within", "spent"]

MOST_S, MOST_BYTES = 60.0, 2 * 2**30
PROCESSORS = 2  # an audit uses as many
_LOOK_S = 0.1
_START = "import sys; sys.path[:0] = sys.argv[1:]; from k3repro.report._within import main; main()"


@dataclass(frozen=True, slots=True)
class Spent:
    """What processes have taken: seconds of processor, bytes of memory resident now; and who they are."""

    cpu_s: float
    resident: int
    pids: tuple[int, ...]


def audit_within(
    folder: Path, *, most_s: float = MOST_S, most_bytes: int = MOST_BYTES, **options: Any
) -> SiteAudit:
    """`audit_site(folder, **options)`, ended after `most_s` seconds or beyond `most_bytes` of memory.

    What is ended gives an audit with one finding.

    Raises:
        InputError: as `audit_site`.
    """
    root = str(Path(k3repro.__file__).parents[1])
    with tempfile.TemporaryFile() as asked, tempfile.TemporaryFile() as answered, _lifeline() as held:
        asked.write(pickle.dumps((held, folder, options)))
        asked.seek(0)
        process = subprocess.Popen(
            [sys.executable, "-c", _START, root],
            stdin=asked, stdout=answered, start_new_session=True, pass_fds=[held],
        )  # fmt: skip
        why = _watch(process, most_s, most_bytes)
        answered.seek(0)
        data = answered.read(most_bytes // 8)
    if why:
        fix = "Do not trust it, or give it more time: --limit SECONDS."
        return SiteAudit(
            folder.resolve(), [found(folder.name, f"not audited to the end: {why}", "bounds", fix)]
        )
    try:
        result = pickle.loads(data)
    except (EOFError, pickle.UnpicklingError):
        died = f"not audited to the end: the audit died ({process.returncode})"
        return SiteAudit(folder.resolve(), [found(folder.name, died, "bounds")])
    if isinstance(result, BaseException):
        raise result
    audit: SiteAudit = result
    return audit


@contextlib.contextmanager
def _lifeline() -> Iterator[int]:
    """The reading end of a pipe that ends when this process does, however it does."""
    reading, writing = os.pipe()
    try:
        yield reading
    finally:
        os.close(reading)
        os.close(writing)


def _end_with(held: int) -> None:
    """End this process and all below it when whoever asked for the audit is gone."""
    os.read(held, 1)
    me = os.getpid()
    for pid in sorted(spent(me).pids, key=lambda pid: pid == me):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def main() -> None:
    """The process: its question on standard input, its answer on standard output."""
    held, folder, options = pickle.load(sys.stdin.buffer)
    threading.Thread(target=_end_with, args=(held,), daemon=True).start()
    with contextlib.redirect_stdout(sys.stderr):
        try:
            answer: SiteAudit | K3Error = audit_site(folder, **options)
        except K3Error as error:
            answer = error
    sys.stdout.buffer.write(pickle.dumps(answer))


def _watch(process: subprocess.Popen[bytes], most_s: float, most_bytes: int) -> str:
    """Wait for a process; why it was ended, empty when it ended by itself."""
    started, why, seen = time.monotonic(), "", set[int]()
    try:
        while process.poll() is None and not why:
            took = spent(process.pid)
            seen.update(took.pids)
            if took.resident > most_bytes:
                why = f"it took more than {most_bytes / 2**20:.0f} MiB of memory"
            elif min(time.monotonic() - started, took.cpu_s / PROCESSORS) > most_s:
                why = f"it took more than {most_s:g} s"
            else:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_LOOK_S)
    finally:
        if process.poll() is None:
            seen.update(spent(process.pid).pids)
            for pid in seen:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            process.wait()
    return why


def spent(pid: int) -> Spent:
    """What a process and all below it have taken so far; those that ended count with who waited for them."""
    table = _linux() if Path("/proc/self/stat").is_file() else _others()
    below, waiting = list[int](), [pid]
    while waiting:
        one = waiting.pop()
        if one in table:
            below.append(one)
            waiting += [child for child, row in table.items() if row[0] == one]
    return Spent(sum(table[p][1] for p in below), sum(table[p][2] for p in below), tuple(below))


def _linux() -> dict[int, tuple[int, float, int]]:
    """Process -> its parent, seconds of processor with children that ended, resident bytes."""
    tick, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    found: dict[int, tuple[int, float, int]] = {}
    for name in filter(str.isdecimal, os.listdir("/proc")):  # noqa: PTH208
        with contextlib.suppress(OSError):  # also ESRCH: it ended just now
            fields = Path(f"/proc/{name}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
            seconds = sum(map(int, fields[11:15])) / tick
            found[int(name)] = int(fields[1]), seconds, int(fields[21]) * page
    return found


def _others() -> dict[int, tuple[int, float, int]]:
    """The same from ps, which does not count children that ended."""
    done = subprocess.run(["ps", "-axo", "pid=,ppid=,time=,rss="], capture_output=True, text=True, check=True)
    found: dict[int, tuple[int, float, int]] = {}
    for line in done.stdout.splitlines():
        pid, parent, clock, kib = line.split()
        seconds = sum(
            float(part) * 60**i for i, part in enumerate(reversed(clock.replace("-", ":").split(":")))
        )
        found[int(pid)] = int(parent), seconds, int(kib) * 1024
    return found
