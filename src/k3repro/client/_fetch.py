"""A plain GET or POST over the same transports, for the questions asked before a run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from k3repro.client._answer import AnswerReader
from k3repro.client._exchange import Handle
from k3repro.client._http import ResponseReader

__all__ = ["Fetch", "Fetched"]

_MAX_BODY = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Fetched:
    """A response, or why there is none (`status` None)."""

    status: int | None
    headers: dict[str, str]
    body: bytes
    problem: str | None

    @property
    def text(self) -> str:
        """The body as text when the status is 200, else empty."""
        return self.body.decode("utf-8", "replace") if self.status == 200 else ""

    @property
    def json(self) -> Any:
        """The body as JSON; None where it is none."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return None

    @property
    def words(self) -> str:
        """What a refusal says, in at most 300 characters."""
        answer = AnswerReader()
        answer.refused(self.body)
        return answer.error or ""


class Fetch:
    """Receives one response into `future`."""

    def __init__(self, future: asyncio.Future[Fetched]) -> None:
        self.future = future
        self.handle: Handle | None = None
        self._body: list[bytes] = []
        self._size = 0
        self._reader = ResponseReader(lambda: None, self._collect)

    def feed(self, batch: Sequence[tuple[int, bytes]]) -> None:
        """Bytes of the response."""
        for _, data in batch:
            self._reader.feed(data)
            if self._reader.complete or self._reader.problem is not None or self._size > _MAX_BODY:
                self._end(self._reader.problem)

    def lost(self, now_ns: int, why: str) -> None:
        """The connection ended."""
        self._reader.closed()
        self._end(None if self._reader.complete else why)

    def moved(self, handle: Handle) -> None:
        """The request went out again on another connection."""
        self.handle = handle

    def _collect(self, body: bytes) -> None:
        self._size += len(body)
        if self._size <= _MAX_BODY:
            self._body.append(body)

    def _end(self, problem: str | None) -> None:
        if not self.future.done():
            reader = self._reader
            if self.handle is not None:
                self.handle.release(reader.complete and reader.keep_alive and problem is None)
            self.future.set_result(Fetched(reader.status, reader.headers, b"".join(self._body), problem))
