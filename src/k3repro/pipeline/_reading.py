"""Strict reading of TOML tables: what is wrong, in which file, stage and key, and what it was near to."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from k3repro.errors import PipelineError


def strict(table: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    for key in table:
        if key not in known:
            raise unknown("key", key, known, where=where)


def unknown(kind: str, name: str, known: Iterable[str], *, where: str) -> PipelineError:
    options = list(known)
    near = difflib.get_close_matches(name, options, n=3, cutoff=0.5)
    if near:
        fix = f"Did you mean {' or '.join(near)}?"
    else:
        fix = f"Known: {', '.join(options)}." if options else f"There is no {kind} at all."
    return PipelineError(f"unknown {kind} {name!r}", where=where, fix=fix)


def typed(table: Mapping[str, Any], key: str, kind: type, where: str, default: Any) -> Any:
    value = table.get(key, default)
    if key in table and not isinstance(value, kind):
        words = {str: "text", list: "a list", dict: "a table", bool: "true or false"}
        raise PipelineError(f"key {key!r} is {type(value).__name__}, not {words[kind]}", where=where)
    return value


def name_list(table: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    values = typed(table, key, list, where, [])
    for value in values:
        if not isinstance(value, str) or not value.strip():
            raise PipelineError(f"key {key!r} holds {value!r}, not a name", where=where)
    return tuple(values)


def positive(table: Mapping[str, Any], key: str, where: str, default: Any) -> Any:
    value = table.get(key, default)
    if key not in table:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise PipelineError(f"key {key!r} is {value!r}, not a positive number", where=where)
    return float(value)


def count(table: Mapping[str, Any], key: str, where: str) -> int | None:
    value = table.get(key)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise PipelineError(f"key {key!r} is {value!r}, not a whole number from 1", where=where)
    return value
