"""Named queries: SQL files that say, in their leading comments, what their columns are.

    -- title: Wall time of a wave against its reply length
    -- column osl: {label = "Reply length", unit = "tokens"}
    -- column wall_s: {label = "Wall", unit = "s", format = ".2f"}
    -- empty: no run of this probe exists for every platform
    SELECT seal, osl, wall_s FROM ... ORDER BY osl

The rest of the comment lines are for people.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from k3repro.errors import InputError
from k3repro.report._markup import sha256
from k3repro.report._site import study_files
from k3repro.toml import parse_toml

__all__ = ["ColumnSpec", "Query", "load_queries", "parse_query"]

_KEYS = {
    "label",
    "unit",
    "format",
    "seal",
    "statistic",
    "n",
    "difference",
    "interval",
    "compares",
    "hide",
    "more",
    "kind",
    "link",
    "disputed",
    "about",
}
_COLUMN = re.compile(r"column\s+([A-Za-z_][\w]*)\s*:\s*(\{.*\})")
_NAME = re.compile(r"[a-z][a-z0-9-]*")


@dataclass(frozen=True, slots=True)
class ColumnSpec:
    """What a column of a query is: label and unit for the reader, format, and the rules it is under.

    seal: the column that cites this column's artifacts (default `seal`). statistic: `p99`, `median`, ...;
    n: the column with its sample size. difference: published minus predicted and its kin. interval: what it
    is taken over (`serves`). compares: what it orders (`platforms`). kind: `digest`, `json`, `code`, `badge`
    or `file` (of a seal). link: the column with the place in the site (`page.html#id`) that a cell leads to.
    disputed: the column with the place of the claim that contradicts the cell, which then says so.
    hide: in no table. more: in a table only behind "more columns".
    about: how the column is computed, in words; shown over its head and in the cards of its cells.
    """

    name: str
    label: str
    unit: str = ""
    format: str | None = None
    seal: str = "seal"
    statistic: str = ""
    n: str = ""
    difference: bool = False
    interval: str = ""
    compares: str = ""
    hide: bool = False
    more: bool = False
    kind: str = ""
    link: str = ""
    disputed: str = ""
    about: str = ""


@dataclass(frozen=True, slots=True)
class Query:
    """One named SELECT with the description of its columns."""

    name: str
    sql: str
    title: str = ""
    empty: str = ""
    columns: dict[str, ColumnSpec] = field(default_factory=dict)
    where: str = ""

    @property
    def sha256(self) -> str:
        return sha256(self.sql)

    def column(self, name: str) -> ColumnSpec:
        """The description of a column; a plain one when the query says nothing about it."""
        return self.columns.get(name) or _guess(name)


@lru_cache(maxsize=4096)
def _guess(name: str) -> ColumnSpec:
    label = name.replace("_", " ")
    difference = bool(re.search(r"(^|_)(diff|difference|delta|deviation|error|ratio)(_|$)", name))
    statistic = re.search(r"(?:^|_)(p\d{2,3}|median)(?:_|$)", name)
    return ColumnSpec(name, label, difference=difference, statistic=statistic.group(1) if statistic else "")


def parse_query(name: str, text: str, where: str = "") -> Query:
    """A query from the text of its file.

    Raises:
        InputError: bad name, a column line that does not parse, or several rows without ORDER BY.
    """
    where = where or f"site/queries/{name}.sql"
    if not _NAME.fullmatch(name):
        raise InputError(
            f"{name!r} is not a query name", where=where, fix="Use lower-case letters, digits, hyphens."
        )
    text = text.replace("\r\n", "\n").strip() + "\n"
    title, empty, columns = "", "", {}
    for line in text.splitlines():
        if not line.startswith("--"):
            continue
        comment = line[2:].strip()
        if comment.startswith("title:"):
            title = comment[6:].strip()
        elif comment.startswith("empty:"):
            empty = comment[6:].strip()
        elif match := _COLUMN.fullmatch(comment):
            columns[match.group(1)] = _column(match.group(1), match.group(2), where)
        elif comment.startswith("column "):
            raise InputError(
                f"cannot read {comment!r}", where=where, fix='Write -- column NAME: {label = "..."}'
            )
    if not re.search(r"\border\s+by\b", text, re.IGNORECASE):
        raise InputError(
            "the query has no ORDER BY", where=where, fix="Order the rows, or the site has no fixed bytes."
        )
    return Query(name, text, title, empty, columns, where)


def _column(name: str, table: str, where: str) -> ColumnSpec:
    raw = parse_toml(f"x = {table}", f"{where}: column {name}")["x"]
    unknown = sorted(set(raw) - _KEYS)
    if unknown:
        raise InputError(
            f"column {name}: unknown key {unknown[0]!r}", where=where, fix=f"Known: {sorted(_KEYS)}."
        )
    guess = _guess(name)
    return ColumnSpec(
        name,
        label=str(raw.get("label", guess.label)),
        unit=str(raw.get("unit", "")),
        format=raw.get("format"),
        seal=str(raw.get("seal", "seal")),
        statistic=str(raw.get("statistic", guess.statistic)),
        n=str(raw.get("n", "")),
        difference=bool(raw.get("difference", guess.difference)),
        interval=str(raw.get("interval", "")),
        compares=str(raw.get("compares", "")),
        hide=bool(raw.get("hide", False)),
        more=bool(raw.get("more", False)),
        kind=str(raw.get("kind", "")),
        link=str(raw.get("link", "")),
        disputed=str(raw.get("disputed", "")),
        about=str(raw.get("about", "")),
    )


def load_queries(folder: Path, only: str = "") -> dict[str, Query]:
    """Every `NAME.sql` of a folder and its studies, by name; just the one called `only` where there is one.

    Raises:
        InputError: a query that does not parse, or two of one name.
    """
    paths = study_files(folder, ".sql")
    wanted = {only: paths[only]} if only in paths else paths
    return {
        name: parse_query(name, _text(path), f"site/queries/{path.relative_to(folder).as_posix()}")
        for name, path in wanted.items()
    }


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError:
        raise InputError("is not UTF-8 text", where=str(path), fix="Save it as UTF-8.") from None
