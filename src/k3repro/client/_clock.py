"""Clocks: an asyncio loop whose time jumps to the next timer, and the wall clock; both count from their own
start.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from typing import Any

from k3repro.errors import TargetError

__all__ = ["VirtualLoop", "WallClock", "new_loop"]


_RESOLUTION = 5e-10  # half a nanosecond


class _Jump:
    """Stands where asyncio expects a selector: instead of waiting it moves the clock."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None or timeout > 0:
            self._loop.jump()
        return []

    def close(self) -> None:
        """Nothing to close."""


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop in virtual time. What would wait for the outside world raises TargetError."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._selector = _Jump(self)
        self._clock_resolution = _RESOLUTION

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._now

    def now_ns(self) -> int:
        """Virtual nanoseconds since the loop was made."""
        return round(self._now * 1e9)

    def jump(self) -> None:
        """Move the clock to the next timer."""
        scheduled = self._scheduled  # type: ignore[attr-defined]
        if not scheduled:
            if self._ready:  # type: ignore[attr-defined]
                return
            raise TargetError(
                "virtual time stands still: something waits, but nothing is scheduled that could wake it",
                where="virtual clock",
                fix="await only the target and asyncio.sleep inside a wave",
            )
        self._now = max(self._now, scheduled[0]._when)
        # asyncio runs what is due before now plus the resolution; the sum must differ from now.
        self._clock_resolution = max(_RESOLUTION, math.ulp(self._now))

    def _process_events(self, event_list: list[Any]) -> None:
        """There are none: no file descriptors."""

    def _write_to_self(self) -> None:
        """Not needed: this loop never sleeps, so a callback from another thread is seen in the next turn."""

    def _refuse(self, *args: Any, **kwargs: Any) -> Any:
        raise TargetError(
            "sockets, threads and subprocesses do not exist in virtual time",
            where="virtual clock",
            fix="use an http:// target for real input and output",
        )

    run_in_executor: Any = _refuse
    create_connection: Any = _refuse
    create_server: Any = _refuse
    create_datagram_endpoint: Any = _refuse
    create_unix_connection: Any = _refuse
    create_unix_server: Any = _refuse
    connect_accepted_socket: Any = _refuse
    connect_read_pipe: Any = _refuse
    connect_write_pipe: Any = _refuse
    subprocess_exec: Any = _refuse
    subprocess_shell: Any = _refuse
    add_reader: Any = _refuse
    add_writer: Any = _refuse
    add_signal_handler: Any = _refuse
    getaddrinfo: Any = _refuse
    getnameinfo: Any = _refuse
    sock_recv: Any = _refuse
    sock_recv_into: Any = _refuse
    sock_sendall: Any = _refuse
    sock_connect: Any = _refuse
    sock_accept: Any = _refuse
    sock_sendfile: Any = _refuse
    sendfile: Any = _refuse
    start_tls: Any = _refuse


class WallClock:
    """Nanoseconds of the monotonic clock since this object was made."""

    def __init__(self) -> None:
        self._start = time.monotonic_ns()

    def now_ns(self) -> int:
        """Nanoseconds since the start."""
        return time.monotonic_ns() - self._start


def new_loop(clock: str) -> tuple[asyncio.AbstractEventLoop, Callable[[], int]]:
    """A fresh loop and its nanosecond clock; `clock` is ``virtual`` or ``wall``."""
    if clock == "virtual":
        loop = VirtualLoop()
        return loop, loop.now_ns
    return asyncio.new_event_loop(), WallClock().now_ns
