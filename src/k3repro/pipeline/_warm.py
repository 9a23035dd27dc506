"""Kernels forked from a process that has imported already what every notebook imports.

A kernel starts in a tenth of a second instead of two, and is as alone as one of its own interpreter: its own
process and session, environment, folder and namespace. The parent holds no thread and no file. It ends with
the worker that started it, and when the code that it imported was edited.

    python -m k3repro.pipeline._warm FD      (a socket: two descriptors a kernel, its line and its log)
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import IO, Any

import k3repro
from k3repro.quick_imports import no_iri_grammar
from k3repro.store import read_code

__all__ = ["Forked", "fork_kernel", "main"]

_LOOK_S = 0.05  # how soon the end of a worker ends its kernels
_server: tuple[subprocess.Popen[bytes], socket.socket] | None = None
_lock = Lock()


class Forked:
    """A forked kernel as `subprocess.Popen` shows a process, as far as a kernel manager asks."""

    stdin = stdout = stderr = None

    def __init__(self, line: socket.socket) -> None:
        self._line = line.makefile("r", encoding="ascii")
        self._socket = line
        self.returncode: int | None = None
        said = self._line.readline()
        if not said.strip():
            raise ChildProcessError("no kernel was forked")
        self.pid = int(said)

    def poll(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""
        if self.returncode is None and select.select([self._socket], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, once it ended."""
        if self.returncode is None:
            self.returncode = int(self._line.readline().strip() or -signal.SIGKILL)
            self._line.close()
            self._socket.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Signal it, unless it ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)

    terminate = kill


def fork_kernel(
    arguments: Sequence[str], environment: Mapping[str, str], folder: str, log: IO[bytes]
) -> Forked:
    """A kernel of this interpreter, from the warm process, which is started when there is none.

    Raises:
        OSError: there is no such process, and it cannot be started.
    """
    request = json.dumps({"arguments": list(arguments), "environment": dict(environment), "folder": folder})
    with suppress(OSError):
        return _asked(request, log)
    _stop()  # it ended, because code was edited
    _start(environment)
    return _asked(request, log)


def _asked(request: str, log: IO[bytes]) -> Forked:
    with _lock:
        if _server is None:
            raise ConnectionError("no warm process")
        mine, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(_server[1], [b"k"], [theirs.fileno(), log.fileno()])
    mine.sendall(request.encode() + b"\n")
    return Forked(mine)


def _start(environment: Mapping[str, str]) -> None:
    global _server
    with _lock:
        mine, theirs = socket.socketpair()
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-m", "k3repro.pipeline._warm", str(theirs.fileno())],
                env=dict(environment), pass_fds=[theirs.fileno()], start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
        _server = process, mine


@atexit.register
def _stop() -> None:
    global _server
    with _lock:
        if _server is not None:
            _server[1].close()
            _server[0].wait()
        _server = None


def _import() -> None:
    """What every notebook imports, and the code that its artifacts are hashed with."""
    with no_iri_grammar():
        import k3repro.probes
        import k3repro.report.show  # noqa: F401
    read_code()


def main(control: socket.socket) -> None:
    """Import, then fork a kernel for every pair of descriptors, until the socket or the code says to end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    before = _stamps()
    _import()
    gc.freeze()
    minders: set[int] = set()
    while True:
        said, descriptors, _, _ = socket.recv_fds(control, 1, 2)
        minders = {pid for pid in minders if not os.waitpid(pid, os.WNOHANG)[0]}
        if not said or _stamps() != before:
            break
        if (minder := os.fork()) == 0:
            control.close()
            _mind(socket.socket(fileno=descriptors[0]), descriptors[1])
        minders.add(minder)
        for descriptor in descriptors:
            os.close(descriptor)
    for descriptor in descriptors:
        os.close(descriptor)
    for pid in minders:
        os.waitpid(pid, 0)


def _stamps() -> dict[str, int]:
    """When each file of this package was changed."""
    root = Path(k3repro.__file__).parent
    return {str(path): path.stat().st_mtime_ns for path in sorted(root.rglob("*.py"))}


def _mind(line: socket.socket, log: int) -> None:
    """Fork a kernel, tell its exit code, and end it when nobody is left to be told."""
    with line.makefile("r", encoding="utf-8") as requests:
        request: dict[str, Any] = json.loads(requests.readline())
    kernel = os.fork()
    if kernel == 0:
        _become(line, log, request)
    os.close(log)
    while not (ended := os.waitpid(kernel, os.WNOHANG))[0]:
        if select.select([line], [], [], _LOOK_S)[0] and not line.recv(1):
            with suppress(ProcessLookupError):
                os.killpg(kernel, signal.SIGKILL)
            ended = os.waitpid(kernel, 0)
            break
    with suppress(OSError):
        line.sendall(f"{os.waitstatus_to_exitcode(ended[1])}\n".encode())
    os._exit(0)


def _become(line: socket.socket, log: int, request: Mapping[str, Any]) -> None:
    """Turn this process into the kernel that `python -m ipykernel_launcher` would be."""
    code: Any = 1
    try:
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((nothing, 0), (log, 1), (log, 2)):
            os.dup2(source, target)
        os.environ.clear()
        os.environ.update(request["environment"], JPY_PARENT_PID=str(os.getppid()))
        time.tzset()
        os.chdir(request["folder"])
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.argv = ["ipykernel_launcher.py", *request["arguments"]]
        line.sendall(f"{os.getpid()}\n".encode())
        line.close()
        os.close(log)
        importlib.import_module("ipykernel.kernelapp").launch_new_instance()
        code = 0
    except SystemExit as ended:
        code = ended.code
    except BaseException:
        traceback.print_exc()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


if __name__ == "__main__":
    del sys.path[0]  # the working directory: a kernel adds its own
    main(socket.socket(fileno=int(sys.argv[1])))
