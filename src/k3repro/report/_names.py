"""The gate's two lists: names that hold digits (`spec`, `vocabulary.toml`), and exemptions by place."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from k3repro.errors import InputError
from k3repro.report._grammar import Grammar, names_only
from k3repro.spec import vocabulary

__all__ = ["Exemption", "load_exemptions", "load_grammar", "read_entries"]


@dataclass(frozen=True, slots=True)
class Exemption:
    """One exact token in one element of one page, and why no artifact can hold it."""

    page: str
    element: str
    token: str
    reason: str


def load_grammar(folder: Path) -> Grammar:
    """The grammar with the names of `spec` and of `folder/vocabulary.toml`.

    Raises:
        InputError: a term without a reason, or one that is a number.
    """
    own = read_entries(folder / "vocabulary.toml", "name", ("term", "reason"))
    return Grammar(names_only(vocabulary()) | {entry["term"] for entry in own})


def load_exemptions(folder: Path) -> list[Exemption]:
    """The exemptions of `folder/exemptions.toml`; none when there is no file."""
    keys = ("page", "element", "token", "reason")
    return [Exemption(**entry) for entry in read_entries(folder / "exemptions.toml", "exemption", keys)]


def read_entries(path: Path, table: str, keys: tuple[str, ...]) -> list[dict[str, str]]:
    """The entries of `[[table]]` in a TOML file, each with exactly these text keys; none without the file.

    Raises:
        InputError: an entry is incomplete.
    """
    if not path.is_file():
        return []
    try:
        entries: list[dict[str, Any]] = tomllib.loads(path.read_text("utf-8")).get(table, [])
    except tomllib.TOMLDecodeError as error:
        raise InputError(str(error), where=str(path)) from None
    for number, entry in enumerate(entries, 1):
        if set(entry) != set(keys) or not all(isinstance(item, str) and item for item in entry.values()):
            raise InputError(
                f"{table} {number} is incomplete", where=str(path), fix=f"It needs {', '.join(keys)}."
            )
    return entries
