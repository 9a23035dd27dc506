"""Recorded corpora: Weka traces (one JSON document a session) and Mooncake traces (JSON lines)."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from k3repro.errors import InputError
from k3repro.probes.agentic.corpus import Corpus, Session, Turn

__all__ = ["read_corpus"]

_MOST_FILES = 100_000
_MOST_BYTES = 512 * 1024 * 1024
_MOST_TOKENS = 10_000_000
_MOONCAKE_BLOCK = 512


def read_corpus(path: Path) -> Corpus:
    """A corpus from a folder of Weka traces, one Weka trace, or a Mooncake file.

    What cannot be replayed from lengths is left out and counted in `dropped`; nothing is made up for it.

    Raises:
        InputError: no such path, or nothing in it is a trace; file and place are named.
    """
    if not path.exists():
        raise InputError(
            "no such corpus", where=path.name, fix="Give a folder or file of traces: --corpus DIR."
        )
    paths = _files(path)
    sessions: list[Session] = []
    dropped: dict[str, int] = {}
    sizes: set[int] = set()
    for file in paths:
        for document in _documents(file):
            read = _weka if "requests" in document else _mooncake
            read(document, file, sessions, dropped, sizes)
    sessions = _join(sessions)
    if not sessions:
        raise InputError(
            "no trace that can be replayed", where=path.name, fix="Weka or Mooncake format is read."
        )
    if len(sizes) > 1:
        raise InputError(
            f"traces of several block sizes: {sorted(sizes)}", where=path.name, fix="Split them."
        )
    return Corpus(
        path.stem, sizes.pop() if sizes else _MOONCAKE_BLOCK, tuple(sessions), tuple(sorted(dropped.items()))
    )


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
        yield _object(text, file, 1)
        return
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield _object(line, file, number)


def _text(file: Path) -> str:
    try:
        if file.stat().st_size > _MOST_BYTES:
            raise InputError("a trace of more than 512 MiB", where=file.name, fix="Split it.")
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InputError("not UTF-8 text", where=file.name) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=file.name) from None


def _object(text: str, file: Path, line: int) -> Mapping[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise InputError("not JSON", where=f"{file.name}, line {line}") from None
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
        kind = next((key for key in ("text_input", "messages", "payload") if key in entry), None)
        if kind is None:
            raise InputError("neither a Weka nor a Mooncake trace", where=file.name)
        dropped[f"carries {kind} instead of lengths"] = (
            dropped.get(f"carries {kind} instead of lengths", 0) + 1
        )
        return
    delay = _seconds(entry.get("delay", 0), file) / 1000
    turn = _turn(entry, "input_length", "output_length", delay, file)
    name = str(entry.get("session_id") or f"{file.stem}-{len(sessions)}")
    sessions.append(Session(name, (turn,)))


def _join(sessions: list[Session]) -> list[Session]:
    """Turns of one session that stand on several lines, together and in order."""
    turns: dict[str, list[Turn]] = {}
    for session in sessions:
        turns.setdefault(session.name, []).extend(session.turns)
    return [Session(name, tuple(found)) for name, found in turns.items()]


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
