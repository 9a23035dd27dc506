"""Registration with a router: one msgpack map over a ZMQ DEALER every few seconds, from a thread of its own.

The router forgets a worker five seconds after its last ping, so a busy event loop must not delay one.
Source: measured on vllm-router 0.1.17.
"""

from __future__ import annotations

import threading
import time
from typing import Any

from k3repro.errors import MissingExtra
from k3repro.twin.engine._launch import RoleLaunch
from k3repro.twin.engine._wire import msgpack_module

__all__ = ["TTL_S", "Pinger", "registration"]

TTL_S = 5.0


def registration(launch: RoleLaunch) -> dict[str, Any]:
    """The map a router registers: addresses without scheme, mode in capitals, sizes of the whole instance."""
    transfer = launch.transfer
    assert transfer is not None
    zmq_address = f"host:{transfer.host},handshake:{transfer.handshake_port},notify:{transfer.notify_port}"
    return {
        "type": transfer.kind,
        "http_address": f"{transfer.host}:{launch.port}",
        "zmq_address": zmq_address,
        "transfer_mode": "READ" if transfer.read else "WRITE",
        "dp_size": launch.dp,
        "tp_size": launch.tp,
    }


class Pinger:
    """Pings until told to stop."""

    def __init__(self, launch: RoleLaunch, interval_s: float) -> None:
        try:
            import zmq
        except ImportError:
            raise MissingExtra(
                "registering with a router needs ZMQ", where="k3repro twin engine",
                fix="Install it: pip install 'k3repro[cluster]'.",
            ) from None  # fmt: skip
        assert launch.transfer is not None
        self._zmq = zmq
        self._address = f"tcp://{launch.transfer.proxy_ip}:{launch.transfer.ping_port}"
        self._frame: bytes = msgpack_module().packb(registration(launch))
        self._interval_s = interval_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ping", daemon=True)
        self.last_s = 0.0

    def start(self) -> None:
        """Send the first ping now."""
        self._thread.start()

    def stop(self) -> None:
        """Send no more; the router forgets this engine within its TTL."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(2)

    def _run(self) -> None:
        with self._zmq.Context() as context, context.socket(self._zmq.DEALER) as socket:
            socket.linger = 0
            # A router that is down must not make pings pile up and arrive as a burst of old ones.
            socket.immediate = 1
            socket.connect(self._address)
            while not self._stop.is_set():
                if socket.poll(0, self._zmq.POLLOUT):
                    socket.send(self._frame, self._zmq.NOBLOCK)
                self.last_s = time.monotonic()
                self._stop.wait(self._interval_s)
