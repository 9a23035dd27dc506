"""A file server for one folder on the loopback interface."""

from __future__ import annotations

import functools
import http.server
from collections.abc import Callable
from pathlib import Path
from typing import Any

from k3repro.errors import MachineError

__all__ = ["serve_folder"]

HOST = "127.0.0.1"


class _Handler(http.server.SimpleHTTPRequestHandler):
    # What browsers insist on, whatever the machine's own table says.
    extensions_map = {  # noqa: RUF012
        **http.server.SimpleHTTPRequestHandler.extensions_map,
        ".css": "text/css",
        ".csv": "text/csv; charset=utf-8",
        ".duckdb": "application/octet-stream",
        ".html": "text/html; charset=utf-8",
        ".js": "text/javascript; charset=utf-8",
        ".json": "application/json",
        ".parquet": "application/vnd.apache.parquet",
        ".sql": "text/plain; charset=utf-8",
        ".svg": "image/svg+xml",
        ".wasm": "application/wasm",
    }

    def end_headers(self) -> None:
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cache-Control", "no-cache")
        super().end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet: a terminal full of requests hides the address."""


def serve_folder(folder: Path, port: int, ready: Callable[[str], None]) -> None:
    """Serve until interrupted; `ready` gets the address.

    Raises:
        MachineError: the port is taken.
    """
    handler = functools.partial(_Handler, directory=str(folder))
    try:
        server = http.server.ThreadingHTTPServer((HOST, port), handler)
    except OSError as error:
        raise MachineError(
            f"port {port}: {error.strerror}", fix="Choose another with --port, 0 for any."
        ) from None
    with server:
        ready(f"http://{HOST}:{server.server_address[1]}")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return
