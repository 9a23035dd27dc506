"""What the twin knows of each request, a JSON line when it ends: the truth a client is compared with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TextIO

from k3repro.errors import MachineError
from k3repro.twin import Cluster, Flight, Platform

__all__ = ["LoggedCluster", "open_log"]


def open_log(path: Path) -> TextIO:
    """A fresh log file. MachineError: it cannot be written."""
    try:
        return path.open("w", encoding="utf-8", buffering=1)
    except OSError as error:
        raise MachineError(error.strerror or str(error), where=str(path), fix="Give another --log.") from None


class LoggedCluster(Cluster):
    """A cluster that writes a line per request: ``id`` (the end of the answer's id), ``reason``, counts, and
    times in simulated nanoseconds since the twin started: ``arrival_ns``, ``prefill_start_ns``, ``token_ns``
    (when each token was due) and ``sent_ns`` (when its bytes were written: later on a busy machine).
    """

    def __init__(self, platform: Platform, seed: int, log: TextIO) -> None:
        super().__init__(platform, seed)
        self._log = log
        self._sent: dict[int, list[int]] = {}

    def batch(self, generation: Any, flight: Flight) -> list[tuple[int, bytes]]:
        """Hand out what is due, and remember when that was."""
        batch = super().batch(generation, flight)
        if flight.number in self.core.flights:
            self._note(self._sent.setdefault(flight.number, []), flight)
        return batch

    def _note(self, sent: list[int], flight: Flight) -> list[int]:
        sent.extend([self.core.now_ns] * (len(flight.times) - len(sent)))
        return sent

    def finished(self, flight: Flight, reason: str) -> None:
        """Count and log a request that ended."""
        super().finished(flight, reason)
        line: dict[str, Any] = {
            "id": f"{self.seed:x}-{flight.number:08d}", "reason": reason, "lane": flight.lane,
            "prompt_tokens": flight.prompt_tokens, "output_tokens": len(flight.times),
            "arrival_ns": flight.arrival_ns, "prefill_start_ns": flight.prefill_start_ns,
            "token_ns": list(flight.times),
            "sent_ns": self._note(self._sent.pop(flight.number, []), flight),
        }  # fmt: skip
        self._log.write(json.dumps(line) + "\n")
