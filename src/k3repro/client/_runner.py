"""A thread with its own event loop, so that a notebook (which runs a loop itself) can call the client
synchronously.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, TypeVar

from k3repro.errors import TargetError

__all__ = ["Runner"]

T = TypeVar("T")
_POLL_S = 0.2  # a waiting main thread wakes this often, so that Ctrl-C is seen on every platform


class Runner:
    """Runs coroutines one after the other on `loop`, in a daemon thread of its own."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._jobs: SimpleQueue[tuple[Coroutine[Any, Any, Any], Future[Any]] | None] = SimpleQueue()
        self._task: asyncio.Task[Any] | None = None
        self._thread = threading.Thread(target=self._work, name="k3repro-client", daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, T], on_interrupt: Callable[[], None]) -> T:
        """Result of `coroutine`. The first Ctrl-C calls `on_interrupt` in the loop and waits on; the second
        cancels.

        KeyboardInterrupt is raised either way, once the coroutine has ended.
        """
        if not self._thread.is_alive():
            coroutine.close()
            raise TargetError("the target is closed", fix="open it again, or stay inside its `with` block")
        future: Future[T] = Future()
        self._jobs.put((coroutine, future))
        interrupts = 0
        while True:
            try:
                result = future.result(_POLL_S)
            except NotYet:
                if not future.done():
                    continue
                raise
            except KeyboardInterrupt:
                if future.done():  # raised by the coroutine itself, or too late to drain anything
                    raise
                interrupts += 1
                self.loop.call_soon_threadsafe(on_interrupt if interrupts == 1 else self._cancel)
                continue
            except asyncio.CancelledError:
                if interrupts:
                    raise KeyboardInterrupt from None
                raise
            if interrupts:
                raise KeyboardInterrupt
            return result

    def close(self) -> None:
        """End the thread and close the loop."""
        if self._thread.is_alive():
            self._jobs.put(None)
            self._thread.join()

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _work(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            while (job := self._jobs.get()) is not None:
                self._run(*job)
        finally:
            self.loop.close()

    def _run(self, coroutine: Coroutine[Any, Any, Any], future: Future[Any]) -> None:
        broken: list[BaseException] = []
        self.loop.set_exception_handler(lambda _, context: self._fault(context, broken))
        try:
            self._task = self.loop.create_task(coroutine)
            future.set_result(self.loop.run_until_complete(self._task))
        except BaseException as error:
            self._clear()
            future.set_exception(broken[0] if broken else error)
        finally:
            self._task = None

    def _fault(self, context: dict[str, Any], broken: list[BaseException]) -> None:
        """A callback failed. Nobody awaits it, so without this the run would hang instead of failing."""
        error = context.get("exception")
        if error is not None:
            broken.append(error)
            self._cancel()

    def _clear(self) -> None:
        """Cancel what a failed run left behind."""
        left = asyncio.all_tasks(self.loop)
        for task in left:
            task.cancel()
        with suppress(BaseException):
            self.loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
