"""Python processes that the code under test starts, forked from one that has imported what they import.

A build starts mkdocs and an audit two readers of files; importing costs each of them more than its work. A
fork is a process of its own as before: its environment, folder, limits and end. `test_same_bytes.py`,
`test_within.py` and `tests/store/test_untrusted.py` start theirs as users do.

    python -m forked FD      (a socket: four descriptors a process, its line and its three streams)
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

IMPORTED = ("k3repro.store._sandbox", "k3repro.report._mkdocs_some", "material.extensions.emoji")


class Forked:
    """What `subprocess.Popen` shows of a process, as far as a build and an audit ask."""

    def __init__(self, line: socket.socket, stdin: Any, stdout: Any) -> None:
        self._line = line.makefile("r", encoding="ascii")
        line.close()
        self.stdin, self.stdout = stdin, stdout
        self.returncode: int | None = None
        self.pid = int(self._line.readline())

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, once it ended; -SIGKILL for any signal."""
        if self.returncode is None:
            self.returncode = int(self._line.read() or -signal.SIGKILL)
            self._line.close()
        return self.returncode

    def kill(self) -> None:
        if self.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def communicate(self) -> tuple[None, None]:
        """Close both pipes and wait: who asks has killed it."""
        for stream in (self.stdin, self.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        self.wait()
        return None, None


class Forking:
    """`subprocess` as the two modules see it."""

    PIPE, STDOUT, DEVNULL = subprocess.PIPE, subprocess.STDOUT, subprocess.DEVNULL

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair()
        with theirs:
            environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONWARNINGS": "ignore"}
            environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
            self._server = subprocess.Popen(
                [sys.executable, "-m", "forked", str(theirs.fileno())],
                env=environment, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL,
            )  # fmt: skip

    def close(self) -> None:
        self._control.close()
        self._server.wait()

    def Popen(
        self, arguments: Sequence[str], *, cwd: Any, env: Mapping[str, str], stdin: Any, stdout: Any,
        stderr: Any, start_new_session: bool = False,
    ) -> Forked:  # fmt: skip
        """A process of `arguments`: PYTHON -m NAME ... or PYTHON [-I] -c CODE ..."""
        request = {"arguments": arguments[1:], "cwd": str(cwd), "env": dict(env)}
        request["session"] = start_new_session
        ours: dict[str, Any] = {"in": None, "out": None}
        given: list[int] = []
        if stdin == self.PIPE:
            theirs, mine = os.pipe()
            given.append(theirs)
            ours["in"] = os.fdopen(mine, "wb")
        else:
            given.append(os.open(os.devnull, os.O_RDONLY))
        if stdout == self.PIPE:
            mine, theirs = os.pipe()
            given.append(theirs)
            ours["out"] = os.fdopen(mine, "rb")
        else:
            given.append(os.dup(stdout.fileno()))
        given.append(os.dup(given[1]) if stderr == self.STDOUT else os.open(os.devnull, os.O_WRONLY))
        line, theirs_line = socket.socketpair()
        with theirs_line:
            socket.send_fds(self._control, [b"f"], [theirs_line.fileno(), *given])
        for descriptor in given:
            os.close(descriptor)
        line.sendall(json.dumps(request).encode() + b"\n")
        return Forked(line, ours["in"], ours["out"])


def main(control: socket.socket) -> None:
    """Import, then fork a process for every four descriptors, until the socket ends."""
    for name in IMPORTED:
        importlib.import_module(name)
    gc.freeze()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the tests end it
    signal.signal(signal.SIGCHLD, _reap)
    while True:
        said, descriptors, _, _ = socket.recv_fds(control, 1, 4)
        if not said:
            return
        if os.fork() == 0:
            control.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _become(socket.socket(fileno=descriptors[0]), descriptors[1:])
        for descriptor in descriptors:
            os.close(descriptor)


def _reap(*_: object) -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _become(line: socket.socket, streams: Sequence[int]) -> None:
    """Turn this process into the one that was asked for, and tell its exit code."""
    code: Any = 1
    try:
        with line.makefile("r", encoding="utf-8") as requests:
            request = json.loads(requests.readline())
        if request["session"]:
            os.setsid()
        for target, source in enumerate(streams):
            os.dup2(source, target)
            os.close(source)
        os.environ.clear()
        os.environ.update(request["env"])
        time.tzset()
        os.chdir(request["cwd"])
        line.sendall(f"{os.getpid()}\n".encode())
        _meant(request["arguments"])()
        code = 0
    except SystemExit as ended:
        code = ended.code
    except BaseException:
        traceback.print_exc()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    code = code if isinstance(code, int) else int(code is not None)
    with suppress(OSError):
        line.sendall(str(code).encode())
    os._exit(code)


def _meant(arguments: Sequence[str]) -> Callable[[], Any]:
    """What an interpreter would do with these arguments."""
    arguments = [word for word in arguments if word != "-I"]
    sys.argv = list(arguments[1:])
    if arguments[0] == "-m":
        return lambda: runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    assert arguments[0] == "-c", arguments
    sys.argv[0] = "-c"
    return lambda: exec(compile(arguments[1], "<string>", "exec"), {"__name__": "__main__"})


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
