"""The command line of `vllm serve`, read as vLLM reads it: every option it has, none that it has not."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from typing import Any

from k3repro.errors import UsageError
from k3repro.toml import shipped_toml

__all__ = ["Flags", "read_flags"]

_WHERE = "vllm serve"
_SCALES = {"k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}


@dataclass(slots=True)
class Flags:
    """Options by long name without dashes: True or False for switches, text, or a list of texts."""

    model: str = ""
    values: dict[str, Any] = field(default_factory=dict)

    def text(self, name: str, default: str = "") -> str:
        """The value of an option as text; of a list, its first."""
        value = self.values.get(name, default)
        return str(value[0] if isinstance(value, list) else value)

    def switch(self, name: str, default: bool = False) -> bool:
        """Whether a switch is on."""
        return bool(self.values.get(name, default))

    def number(self, name: str, default: int, least: int = 0) -> int:
        """A whole number; ``1k`` is 1000 and ``1K`` is 1024, as in vLLM."""
        if name not in self.values:
            return default
        text = self.text(name)
        scale = _SCALES.get(text[-1:], 1)
        try:
            value = float(text[:-1]) * scale if scale > 1 else int(text)
        except ValueError:
            raise UsageError(f"--{name}: invalid int value: {text!r}", where=_WHERE) from None
        if value != int(value) or value < least:
            raise UsageError(f"--{name} is {text}, not a whole number of at least {least}", where=_WHERE)
        return int(value)

    def document(self, name: str) -> dict[str, Any] | None:
        """A JSON object, or None when the option was not given."""
        if name not in self.values:
            return None
        try:
            value = json.loads(self.text(name))
        except ValueError as error:
            raise UsageError(
                f"--{name} is not JSON: {error}", where=_WHERE, fix="Quote the whole object for the shell."
            ) from None
        if not isinstance(value, dict):
            raise UsageError(f"--{name} is not a JSON object", where=_WHERE)
        return value


@cache
def _table() -> dict[str, Any]:
    return shipped_toml("k3repro.twin.engine", "flags.toml")


@cache
def _kinds() -> dict[str, str]:
    return {name: kind for kind in ("switch", "pair", "value", "many") for name in _table()[kind]}


def read_flags(arguments: Sequence[str]) -> Flags:
    """Options and model of ``[serve] [MODEL] --option ...``; a later option wins over an earlier one.

    Raises:
        UsageError: an option vLLM does not have (with the nearest it has), a missing or impossible value.
    """
    flags = Flags()
    rest = list(arguments)
    if rest[:1] == ["serve"]:
        rest.pop(0)
    while rest:
        word = rest.pop(0)
        if _is_option(word):
            _option(word, rest, flags)
        elif flags.model:
            raise UsageError(f"unrecognized arguments: {word}", where=_WHERE)
        else:
            flags.model = word
    flags.model = flags.model or flags.text("model")
    return flags


def _is_option(word: str) -> bool:
    return word.startswith("-") and len(word) > 1 and not word[1].isdigit()


def _option(word: str, rest: list[str], flags: Flags) -> None:
    spelled, equals, value = word.partition("=")
    name, negated = _resolve(spelled)
    kind = _kinds()[name.partition(".")[0]]
    if kind in ("switch", "pair"):
        if equals:
            raise UsageError(f"{spelled} takes no value", where=_WHERE)
        flags.values[name] = not negated
        return
    values = [value] if equals else []
    while not equals and rest and not _is_option(rest[0]) and (kind == "many" or not values):
        values.append(rest.pop(0))
    if not values:
        raise UsageError(f"argument {spelled}: expected one argument", where=_WHERE)
    known = _table()["choices"].get(name)
    if known and values[0] not in known:
        raise UsageError(
            f"argument {spelled}: invalid choice: {values[0]!r}", where=_WHERE, fix=_near(values[0], known)
        )
    flags.values[name] = values if kind == "many" else values[0]


def _resolve(spelled: str) -> tuple[str, bool]:
    """Long name of an option as it was spelled, and whether it was negated."""
    bare = spelled.lstrip("-").replace("_", "-")
    head, dot, below = bare.partition(".")
    head = _table()["alias"].get(head, head)
    if head in _kinds():
        return head + dot + below, False
    positive = head.removeprefix("no-")
    if head != positive and _kinds().get(positive) == "pair":
        return positive, True
    known = [f"--{name}" for name in _kinds()]
    raise UsageError(f"unrecognized arguments: {spelled}", where=_WHERE, fix=_near(f"--{head}", known))


def _near(word: str, known: Sequence[str]) -> str:
    found = get_close_matches(word, known, n=1, cutoff=0.5)
    return f"Did you mean {found[0]}?" if found else f"Known: {', '.join(sorted(known)[:20])}."
