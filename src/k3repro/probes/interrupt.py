"""Ctrl-C: the first finishes the wave in flight and stops, the second drains it, the third aborts it.

A wave that is killed instead of drained can leave the fabric of a disaggregated serve unable to move state
(the publication, operational note), so draining is the default and an abort marks the serve as suspect.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from k3repro.errors import InvalidRun
from k3repro.probes.plan import Rung
from k3repro.probes.progress import Progress
from k3repro.store import Run


class Interrupt:
    """Watches SIGINT while a probe runs (main thread only; elsewhere it never fires)."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._presses = 0
        self._flying: Rung | None = None

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
            InvalidRun: with what to do next.
        """
        if self._presses:
            raise InvalidRun("stopped as asked", where=f"before {rung}", fix="The same command resumes here.")

    @contextmanager
    def wave(self, rung: Rung, run: Run) -> Iterator[None]:
        """Around one wave: remembers what is in flight, marks the serve suspect when the wave is aborted."""
        self._flying = rung
        try:
            yield
        except KeyboardInterrupt:
            run.serve["suspect"] = f"wave {rung.name} was aborted, not drained"
            run.commit(f"aborted-{len(run.waves)}", {})
            fix = "Run it again: the canary decides whether the serve still works."
            raise InvalidRun("aborted; the serve is suspect", where=rung.name, fix=fix) from None
        finally:
            self._flying = None

    def _handle(self, _signal: int, _frame: FrameType | None) -> Any:
        self._presses += 1
        flying = self._flying
        if self._presses == 1:
            what = f"{flying.requests} requests of {flying.name} in flight" if flying else "nothing in flight"
            self._progress.note(f"stopping after this wave: {what}. Press Ctrl-C again to give the wave up.")
            return
        if self._presses == 2:
            risk = "an aborted wave can leave a serve unable to move state between its pools"
            self._progress.note(
                f"nothing more is sent, what is in flight drains. Ctrl-C again aborts it; {risk}."
            )
        # The client drains on the first KeyboardInterrupt it sees and aborts on the second.
        raise KeyboardInterrupt
