"""One request on the wire: bytes with times in, one record out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from k3repro.client._answer import AnswerReader
from k3repro.client._http import ResponseReader
from k3repro.client._judge import judge_request
from k3repro.client._model import Outcome, Request, RequestRecord
from k3repro.client._sse import EventStream

__all__ = ["Exchange", "Handle", "Receiver", "Transport"]

_MAX_BODY = 16 * 1024 * 1024  # of an answer that is no event stream; memory stays bounded


class Receiver(Protocol):
    """The client's side of an exchange, as a transport sees it."""

    def feed(self, batch: Sequence[tuple[int, bytes]]) -> None:
        """Response bytes with their arrival times (nanoseconds of the transport's clock, ascending)."""

    def lost(self, now_ns: int, why: str) -> None:
        """The connection ended."""

    def moved(self, handle: Handle) -> None:
        """The request went out again on another connection, because a kept one had been closed."""


class Handle(Protocol):
    """The transport's side of an exchange, as the client sees it."""

    def flush(self) -> None:
        """Deliver at once what has arrived by now (a transport may hold bytes back until they are wanted)."""

    def abort(self) -> None:
        """Drop the request and whatever carries it."""

    def release(self, keep_alive: bool) -> None:
        """The response is over; the connection may carry another request if `keep_alive`."""


class Transport(Protocol):
    """Carries request bytes to a server and response bytes back."""

    def open(self, request: bytes, receiver: Receiver) -> Handle:
        """Send one whole HTTP/1.1 request."""


class Exchange:
    """Reads one response as its bytes arrive. `done` gets the record, once. Times are nanoseconds of the
    transport's clock.
    """

    __slots__ = (
        "_answer",
        "_body",
        "_body_size",
        "_done",
        "_events",
        "_reader",
        "ended",
        "handle",
        "intended_ns",
        "last_ns",
        "request",
        "sent_ns",
        "wave",
    )

    def __init__(
        self,
        request: Request,
        wave: str,
        intended_ns: int,
        sent_ns: int,
        done: Callable[[RequestRecord], None],
    ) -> None:
        self.request = request
        self.wave = wave
        self.intended_ns = intended_ns
        self.sent_ns = sent_ns
        self.last_ns = sent_ns
        self.ended = False
        self._done = done
        self.handle: Handle | None = None
        self._answer = AnswerReader()
        self._events: EventStream | None = None
        self._body: list[bytes] = []
        self._body_size = 0
        self._reader = ResponseReader(self._head, self._collect)

    @property
    def retry_after_s(self) -> float | None:
        """Seconds the server asked to wait; None where it did not say, or gave a date."""
        text = self._reader.headers.get("retry-after", "").strip()
        return float(text) if text.isdigit() and len(text) < 9 else None

    @property
    def started(self) -> bool:
        """Whether a token has arrived."""
        return self._answer.first_token_ns is not None

    @property
    def answered(self) -> bool:
        """Whether [DONE] has arrived."""
        return self._answer.done

    def feed(self, batch: Sequence[tuple[int, bytes]]) -> None:
        """Bytes of the response with their arrival times."""
        reader = self._reader
        for now_ns, data in batch:
            if self.ended:
                return
            self.last_ns = self._answer.now_ns = now_ns
            before = self._answer.events
            reader.feed(data)
            if self.request.on_token is not None:
                for _ in range(self._answer.events - before):
                    self.request.on_token(now_ns)
            if reader.complete or reader.problem is not None:
                self._end(now_ns)

    def lost(self, now_ns: int, why: str) -> None:
        """The connection ended."""
        if not self.ended:
            self._reader.closed()
            self._end(now_ns, lost=why)

    def moved(self, handle: Handle) -> None:
        """The request went out again on another connection."""
        self.handle = handle
        self._answer.remark = "sent again: the server had closed the kept connection"

    def give_up(self, now_ns: int, outcome: Outcome, why: str) -> None:
        """The client stops waiting."""
        if self.ended:
            return
        if self.handle is not None:
            self.handle.flush()
        if not self.ended:
            self._end(now_ns, stopped=(outcome, why))

    def _head(self) -> None:
        kind = self._reader.headers.get("content-type", "")
        if self._reader.status == 200 and "text/event-stream" in kind.lower():
            self._events = EventStream(self._answer.event)
            self._reader.listen(self._events.feed)

    def _collect(self, body: bytes) -> None:
        self._body_size += len(body)
        if self._body_size <= _MAX_BODY:
            self._body.append(body)
        else:
            self._reader.problem = "a body of more than 16 MiB"

    def _let_go(self, abort: bool) -> None:
        """Free the connection, and cut the reference cycles, so that nothing waits for the garbage
        collector.
        """
        handle, self.handle = self.handle, None
        reader = self._reader
        if handle is not None and abort:
            handle.abort()
        elif handle is not None:
            handle.release(reader.complete and reader.keep_alive and reader.problem is None)
        reader.dispose()
        self._events = None

    def _end(self, now_ns: int, stopped: tuple[Outcome, str] | None = None, lost: str | None = None) -> None:
        answer, reader = self._answer, self._reader
        if self._events is None and self._body and stopped is None:
            read = answer.plain if reader.status == 200 else answer.refused
            read(b"".join(self._body))
        elif self._events is not None and self._events.close() and reader.complete and answer.remark is None:
            answer.remark = "the stream ended inside an event"
        outcome, error = judge_request(self.request, reader, answer, stopped, lost)
        self.ended = True
        self._let_go(stopped is not None)
        self._done(
            RequestRecord(
                self.request.request_id,
                self.wave,
                outcome,
                reader.status,
                answer.finish_reason,
                error,
                self.intended_ns,
                self.sent_ns,
                answer.first_token_ns,
                answer.last_token_ns,
                now_ns,
                answer.prompt_tokens,
                answer.completion_tokens,
                answer.cached_tokens,
                answer.first_event_tokens,
                answer.events,
                answer.text,
                answer.fingerprint,
                answer.reasoning,
                answer.tool_calls,
                answer.first_answer_ns,
            )
        )
