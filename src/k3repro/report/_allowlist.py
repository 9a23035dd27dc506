"""The gate's two lists: names that hold digits (`spec`, `vocabulary.toml`), and exemptions by place."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from k3repro.errors import InputError
from k3repro.report._grammar import Grammar, names_only, refuse_number
from k3repro.spec import vocabulary
from k3repro.toml import read_toml

__all__ = ["Exemption", "load_exemptions", "load_grammar", "own_names", "read_entries"]


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
    own = {entry["term"] for entry in own_names(folder)}
    for term in sorted(own):
        refuse_number(term, str(folder / "vocabulary.toml"))
    return Grammar(names_only(vocabulary()) | own)


def own_names(folder: Path) -> list[dict[str, str]]:
    """The entries of `folder/vocabulary.toml`: term and reason.

    Raises:
        InputError: a term without a reason.
    """
    return read_entries(folder / "vocabulary.toml", "name", ("term", "reason"))


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
    entries: list[dict[str, Any]] = read_toml(path, where=str(path)).get(table, [])
    if not isinstance(entries, list):
        raise InputError(f"{table} is no list of tables", where=str(path), fix=f"Write [[{table}]].")
    for number, entry in enumerate(entries, 1):
        if (
            not isinstance(entry, dict)
            or set(entry) != set(keys)
            or not all(isinstance(item, str) and item for item in entry.values())
        ):
            raise InputError(
                f"{table} {number} is incomplete", where=str(path), fix=f"It needs {', '.join(keys)}."
            )
    return entries
