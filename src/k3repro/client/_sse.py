"""Server-sent events from bytes, however they are cut (WHATWG HTML, section 9.2)."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["EventStream"]

_LONGEST_LINE = 16 * 1024 * 1024
_BOM = b"\xef\xbb\xbf"


class EventStream:
    """Turns body bytes into `on_event(data, name)` calls.

    Whole events as engines write them (``data: ...\\n\\n``) take a short path; anything else, and
    everything after the first cut inside an event until the buffer is empty again, takes the line parser.
    Both give the same events.
    """

    __slots__ = ("_after_return", "_buffer", "_data", "_name", "_on_event", "_started")

    def __init__(self, on_event: Callable[[bytes, bytes], None]) -> None:
        self._on_event = on_event
        self._buffer = b""
        self._data: list[bytes] = []
        self._name = b""
        self._started = False
        self._after_return = False

    def feed(self, chunk: bytes) -> None:
        """The next bytes of the body."""
        simple = chunk[:6] == b"data: " and chunk[-2:] == b"\n\n" and b"\r" not in chunk
        if not simple or self._buffer or self._data or self._name:
            self._lines(chunk)
            return
        self._started = True
        self._after_return = False
        if chunk.find(b"\n") == len(chunk) - 2:
            self._on_event(chunk[6:-2], b"")
            return
        for event in chunk[:-2].split(b"\n\n"):
            if event[:6] == b"data: " and b"\n" not in event:
                self._on_event(event[6:], b"")
            else:
                self._lines(event + b"\n\n")

    def close(self) -> bool:
        """End of the body; True when it ended inside an event (which is dropped, as the standard says)."""
        return bool(self._buffer.strip(b"\r\n") or self._data)

    def _lines(self, chunk: bytes) -> None:
        data = self._buffer + chunk
        if not self._started:
            # A byte order mark may itself be cut; wait until it can be told apart.
            if len(data) < 3 and _BOM.startswith(data):
                self._buffer = data
                return
            self._started = True
            data = data.removeprefix(_BOM)
        self._buffer = b""
        if not data:
            return
        if self._after_return:  # the \n that follows belongs to the line that \r has ended
            data = data.removeprefix(b"\n")
        self._after_return = chunk.endswith(b"\r")
        lines = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._buffer = lines.pop()
        if len(self._buffer) > _LONGEST_LINE:
            raise ValueError("an event of more than 16 MiB")
        for line in lines:
            self._line(line)

    def _line(self, line: bytes) -> None:
        if not line:
            data, name = self._data, self._name
            self._data, self._name = [], b""
            if data:
                self._on_event(b"\n".join(data), name)
            return
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
        elif field == b"event":
            self._name = value
