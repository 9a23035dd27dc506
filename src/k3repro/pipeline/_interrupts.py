"""Ctrl-C and SIGTERM while stages run, and signals to the kernels that run here."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any


class Terminated(KeyboardInterrupt):
    """SIGTERM: somebody wants the machine back, so there is no time to drain."""


@contextmanager
def interruptible() -> Iterator[None]:
    """Treat SIGTERM like Ctrl-C while stages run, so that a cancelled job leaves no kernel behind."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(*_: Any) -> None:
        raise Terminated

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def signal_kernels(events: Iterable[Mapping[str, Any]], number: signal.Signals) -> None:
    """Send a signal to the kernels that `events` name, as far as they run on this machine."""
    for event in events:
        # A process id of another machine means something else here.
        if "kernel" in event and event.get("host") == socket.gethostname():
            with suppress(ProcessLookupError, PermissionError):
                os.kill(event["kernel"], number)
