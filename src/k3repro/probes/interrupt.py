"""Ctrl-C: the first stops new requests and drains, the second asks, and only a yes aborts.

A wave that is killed instead of drained can leave the fabric of a disaggregated serve unable to move state
(the publication, operational note), so draining is the default and an abort marks the serve as suspect.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from k3repro.errors import Interrupted
from k3repro.probes.plan import Rung
from k3repro.probes.progress import Progress
from k3repro.store import Run
from k3repro.units import quantile


@dataclass(slots=True)
class WaveInFlight:
    """A wave under way as the person at the keyboard is told of it."""

    rung: Rung
    began: float = field(default_factory=time.monotonic)
    took_s: list[float] = field(default_factory=list)
    records: list[Any] = field(default_factory=list)

    def note(self, record: Any) -> None:
        """A request ended."""
        self.records.append(record)
        if record.done_ns > record.sent_ns:
            self.took_s.append((record.done_ns - record.sent_ns) / 1e9)

    @property
    def in_flight(self) -> int:
        """At most so many requests are with the server."""
        return min(self.rung.concurrency, self.rung.requests - len(self.took_s))

    @property
    def whole(self) -> bool:
        """Whether every request of the wave was sent and has ended."""
        sent = [record for record in self.records if str(record.outcome) != "cancelled"]
        return len(sent) == self.rung.requests

    def text(self) -> str:
        """What is in flight, and how long it should take to drain."""
        if not self.took_s:
            expected = f"none has ended yet, so the drain may take up to {self.rung.timeout_s:.0f} s"
        else:
            middle, slowest = quantile(self.took_s, 0.5), max(self.took_s)
            expected = f"expect about {middle:.0f} s, the slowest so far took {slowest:.0f} s"
        return f"{self.in_flight} requests of {self.rung.name} in flight; {expected}"


def ask(question: str) -> bool | None:
    """Yes or no from the terminal; None where nobody can be asked (a notebook, a pipeline)."""
    if not (sys.stdin and sys.stdin.isatty()):
        return None
    try:
        return input(f"{question} (y/N) ").strip().lower() in ("y", "yes")
    except EOFError:
        return None


class Interrupt:
    """Watches SIGINT while a probe runs (main thread only; elsewhere it never fires)."""

    def __init__(self, progress: Progress, ask: Callable[[str], bool | None] = ask) -> None:
        self._progress = progress
        self._ask = ask
        self._presses = 0
        self._aborting = False
        self._flying: WaveInFlight | None = None

    @contextmanager
    def watch(self) -> Iterator[Interrupt]:
        """Take over SIGINT for the length of a run."""
        if threading.current_thread() is not threading.main_thread():
            yield self
            return
        previous = signal.signal(signal.SIGINT, self._handle)
        try:
            yield self
        finally:
            signal.signal(signal.SIGINT, previous)

    def check(self, rung: str) -> None:
        """Stop before `rung` when somebody asked to.

        Raises:
            Interrupted: with what to do next.
        """
        if self._presses:
            raise Interrupted(
                "stopped as asked", where=f"before {rung}", fix="The same command resumes here."
            )

    @contextmanager
    def wave(self, rung: Rung, run: Run) -> Iterator[WaveInFlight]:
        """Around one wave: counts what is in flight; an aborted wave marks the serve suspect, a drained
        one not.
        """
        self.check(rung.name)
        self._flying = WaveInFlight(rung)
        try:
            yield self._flying
        except KeyboardInterrupt:
            if self._presses and not self._aborting and self._flying.whole:
                return  # everything had been sent: the wave counts, and the run stops before the next
            if self._presses and not self._aborting:
                fix = "What was in flight has drained; the same command resumes with this rung."
                raise Interrupted("stopped as asked", where=rung.name, fix=fix) from None
            run.serve["suspect"] = f"wave {rung.name} was aborted, not drained"
            run.commit(f"aborted-{len(run.waves)}", {})
            fix = "Run it again: the canary decides whether the serve still works."
            raise Interrupted("aborted; the serve is suspect", where=rung.name, fix=fix) from None
        finally:
            self._flying = None

    def _handle(self, _signal: int, _frame: FrameType | None) -> Any:
        self._presses += 1
        flying = self._flying
        if flying is None:
            self._progress.note("stopping before the next wave; nothing is in flight.")
            return
        if self._presses == 1:
            self._progress.note(f"no new requests: {flying.text()}. Ctrl-C again to be asked about aborting.")
            raise KeyboardInterrupt  # the client drains on the first it sees and aborts on the second
        risk = "An aborted wave can leave a serve unable to move state between its pools."
        self._progress.note(f"{flying.text()}. {risk}")
        answer = self._ask("Abort what is in flight?")
        if answer is None and self._presses == 2:
            self._progress.note("nobody can be asked here: one more Ctrl-C aborts.")
        elif answer or answer is None:
            self._aborting = True
            raise KeyboardInterrupt
        else:
            self._progress.note("draining goes on.")
