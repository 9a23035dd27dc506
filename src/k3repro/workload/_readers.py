"""Workloads recorded in files: Weka and Mooncake traces, ShareGPT-like conversations, tables of lengths."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from k3repro.errors import InputError
from k3repro.workload._sessions import Corpus, Session, Turn, joined

__all__ = ["estimate_tokens", "read_corpus"]

_MOST_FILES = 100_000
_MOST_BYTES = 512 * 1024 * 1024
_MOST_TOKENS = 10_000_000
_MOONCAKE_BLOCK = 512


def estimate_tokens(text: str) -> int:
    """Tokens of a text that nobody counted: four bytes each, at least one. An estimate, marked as such."""
    return max(1, math.ceil(len(text.encode("utf-8", "replace")) / 4))


def read_corpus(path: Path, count: Callable[[str], int] | None = None) -> Corpus:
    """A corpus from a file, or a folder of Weka traces. Formats, told by their content:

    Weka (one JSON document a session), Mooncake (JSON lines with input_length, output_length, timestamp in
    ms), conversations (a JSON list or JSON lines, ShareGPT's ``conversations`` or OpenAI's ``messages``), and
    CSV with a header: isl and osl, or prompt and osl; arrival_s, delay_s, session, group, prefix_tokens.
    `count` counts the tokens of a text; without it they are estimated, and the corpus says so.
    What cannot be replayed from lengths is left out and counted in `dropped`; nothing is made up for it.

    Raises:
        InputError: no such path, or nothing in it can be replayed; file and place are named.
    """
    if not path.exists():
        raise InputError("no such corpus", where=path.name, fix="Give a folder or file: --dataset FILE.")
    found = _Found(count)
    for file in _files(path):
        if file.suffix == ".csv":
            found.table(file)
            continue
        for document in _documents(file):
            found.take(document, file)
    sessions = joined(found.sessions)
    if not sessions:
        raise InputError(
            "nothing that can be replayed", where=path.name,
            fix="Weka, Mooncake, ShareGPT-like JSON and CSV with isl and osl are read.",
        )  # fmt: skip
    if len(found.sizes) > 1:
        raise InputError(
            f"traces of several block sizes: {sorted(found.sizes)}", where=path.name, fix="Split them."
        )
    size = found.sizes.pop() if found.sizes else _MOONCAKE_BLOCK
    dropped = tuple(sorted(found.dropped.items()))
    return Corpus(path.stem, size, tuple(sessions), dropped, found.estimated)


class _Found:
    """What was read so far."""

    def __init__(self, count: Callable[[str], int] | None) -> None:
        self.sessions: list[Session] = []
        self.dropped: dict[str, int] = {}
        self.sizes: set[int] = set()
        self.estimated = False
        self._count = count

    def tokens(self, text: str) -> int:
        """Tokens of a text: counted, or estimated and remembered as such."""
        if self._count is not None:
            return max(1, self._count(text))
        self.estimated = True
        return estimate_tokens(text)

    def drop(self, why: str) -> None:
        """Count what is left out."""
        self.dropped[why] = self.dropped.get(why, 0) + 1

    def take(self, document: Mapping[str, Any], file: Path) -> None:
        """One JSON object of a file."""
        said = document.get("conversations", document.get("messages"))
        if "requests" in document:
            _weka(document, file, self.sessions, self.dropped, self.sizes)
        elif isinstance(said, list) and "input_length" not in document:
            self.conversation(document, said, file)
        else:
            _mooncake(document, file, self.sessions, self.dropped, self.sizes)

    def conversation(self, document: Mapping[str, Any], said: list[Any], file: Path) -> None:
        """Turns of one conversation: each prompt holds all that was said before it."""
        name = str(document.get("id") or f"{file.stem}-{len(self.sessions)}")
        turns: list[Turn] = []
        history: list[str] = []
        for entry in said:
            speaker, text = _said(entry, file)
            if speaker and history:
                prompt = "\n".join(history)
                turns.append(Turn(0.0, self.tokens(prompt), self.tokens(text), prompt=prompt))
            history.append(text)
        if turns:
            self.sessions.append(Session(name, tuple(turns)))
        else:
            self.drop("conversation without an answer")

    def table(self, file: Path) -> None:
        """A CSV: one turn a row; rows of one session belong together."""
        rows = csv.DictReader(io.StringIO(_text(file)))
        names = {(name or "").strip() for name in rows.fieldnames or ()}
        if "osl" not in names or not names & {"isl", "prompt"}:
            raise InputError(
                f"columns {', '.join(sorted(names)) or 'none'}", where=file.name,
                fix="The header needs isl and osl (or prompt and osl).",
            )  # fmt: skip
        for line, row in enumerate(rows, start=2):
            entry = {(key or "").strip(): (value or "") for key, value in row.items() if key is not None}
            self.sessions.append(self._row(entry, file, line))

    def _row(self, entry: Mapping[str, str], file: Path, line: int) -> Session:
        def number(name: str, kind: Callable[[str], Any], otherwise: Any) -> Any:
            try:
                return kind(entry[name]) if entry.get(name) else otherwise
            except ValueError:
                raise InputError(
                    f"{name} is {entry[name]!r}, not a number", where=f"{file.name}, line {line}"
                ) from None

        prompt = entry.get("prompt", "")
        isl = number("isl", int, None) or (self.tokens(prompt) if prompt else None)
        arrival = number("arrival_s", float, None)
        turn = Turn(
            _seconds(number("delay_s", float, 0.0), file), _whole(isl, "isl", file),
            _whole(number("osl", int, None), "osl", file),
            prefix_tokens=number("prefix_tokens", int, 0), prompt=prompt,
        )  # fmt: skip
        return Session(
            entry.get("session") or f"{file.stem}-{line - 1}", (turn,),
            None if arrival is None else _seconds(arrival, file), number("group", int, 0),
        )  # fmt: skip


def _said(entry: Any, file: Path) -> tuple[bool, str]:
    """Whether the assistant said it, and what."""
    if not isinstance(entry, dict):
        raise InputError("a message is not a JSON object", where=file.name)
    speaker = str(entry.get("from", entry.get("role", "")))
    text = entry.get("value", entry.get("content", ""))
    if isinstance(text, list):
        text = "".join(str(part.get("text", "")) for part in text if isinstance(part, dict))
    return speaker in ("gpt", "assistant", "model", "chatgpt", "bard"), str(text)


def _files(path: Path) -> list[Path]:
    """The file itself, or the traces under a folder; a folder of anything else is no corpus."""
    if not path.is_dir():
        return [path]
    found: list[Path] = []
    try:
        for file in path.rglob("*.json*"):
            found += [file] if file.is_file() else []
            if len(found) > _MOST_FILES:
                fix = "Name the folder of the traces themselves."
                raise InputError(f"more than {_MOST_FILES} files", where=path.name or str(path), fix=fix)
    except OSError as error:
        raise InputError(f"cannot be listed: {error.strerror}", where=path.name or str(path)) from None
    return sorted(found)


def _documents(file: Path) -> Iterator[Mapping[str, Any]]:
    """The JSON objects of a file: one document, or one a line."""
    text = _text(file)
    if file.suffix == ".json":
        whole = _json(text, file, 1)
        for entry in whole if isinstance(whole, list) else [whole]:
            yield _as_object(entry, file, 1)
        return
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield _as_object(_json(line, file, number), file, number)


def _text(file: Path) -> str:
    try:
        if file.stat().st_size > _MOST_BYTES:
            raise InputError("a trace of more than 512 MiB", where=file.name, fix="Split it.")
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InputError("not UTF-8 text", where=file.name) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=file.name) from None


def _json(text: str, file: Path, line: int) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise InputError("not JSON", where=f"{file.name}, line {line}") from None


def _as_object(value: Any, file: Path, line: int) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InputError("not a JSON object", where=f"{file.name}, line {line}")
    return value


def _weka(
    document: Mapping[str, Any], file: Path, sessions: list[Session], dropped: dict[str, int], sizes: set[int]
) -> None:
    name, size = str(document.get("id") or file.stem), document.get("block_size", 64)
    sizes.add(_whole(size, "block_size", file))
    main: list[Turn] = []
    subagents = 0
    ends = 0.0
    for entry in _list(document.get("requests"), file):
        if entry.get("type") == "subagent" or "requests" in entry:
            subagents += 1
            _weka({"id": f"{name}/{subagents}", "block_size": size, "requests": entry.get("requests", [])},
                  file, sessions, dropped, sizes)  # fmt: skip
            continue
        start = _seconds(entry.get("t", ends), file)
        think = entry.get("think_time")
        delay = _seconds(think, file) if think is not None else max(0.0, start - ends)
        main.append(_turn(entry, "in", "out", delay if main else 0.0, file))
        ends = start + _seconds(entry.get("api_time", 0.0), file)
    if main:
        sessions.append(Session(name, tuple(main)))


def _mooncake(
    entry: Mapping[str, Any], file: Path, sessions: list[Session], dropped: dict[str, int], sizes: set[int]
) -> None:
    sizes.add(_MOONCAKE_BLOCK)
    if "input_length" not in entry:
        kind = next((key for key in ("text_input", "payload") if key in entry), None)
        if kind is None:
            raise InputError(
                "no trace that is known here", where=file.name,
                fix="Weka, Mooncake, ShareGPT-like JSON and CSV with isl and osl are read.",
            )  # fmt: skip
        dropped[f"carries {kind} instead of lengths"] = (
            dropped.get(f"carries {kind} instead of lengths", 0) + 1
        )
        return
    delay = _seconds(entry.get("delay", 0), file) / 1000
    turn = _turn(entry, "input_length", "output_length", delay, file)
    name = str(entry.get("session_id") or f"{file.stem}-{len(sessions)}")
    stamp = entry.get("timestamp")
    arrival = None if stamp is None else _seconds(stamp, file) / 1000
    sessions.append(Session(name, (turn,), arrival))


def _turn(entry: Mapping[str, Any], isl: str, osl: str, delay: float, file: Path) -> Turn:
    blocks = entry.get("hash_ids") or ()
    if not isinstance(blocks, (list, tuple)) or not all(type(block) is int for block in blocks):
        raise InputError("hash_ids is not a list of whole numbers", where=file.name)
    tokens_in, tokens_out = _whole(entry.get(isl), isl, file), _whole(entry.get(osl), osl, file)
    return Turn(delay, tokens_in, tokens_out, tuple(blocks))


def _whole(value: Any, name: str, file: Path) -> int:
    if type(value) is not int or not 1 <= value <= _MOST_TOKENS:
        raise InputError(f"{name} is {value!r}, not a whole number from 1 to {_MOST_TOKENS}", where=file.name)
    return value


def _seconds(value: Any, file: Path) -> float:
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, float))
        or not math.isfinite(value)
        or value < 0
    ):
        raise InputError(f"{value!r} is not a time", where=file.name)
    return float(value)


def _list(value: Any, file: Path) -> list[Mapping[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise InputError("requests is not a list of objects", where=file.name)
    return value
