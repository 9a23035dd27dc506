"""One template, many pages: front matter `each: QUERY` makes a page for every row of a named query."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from k3repro.errors import InputError
from k3repro.report._site import Template
from k3repro.report._sources import Sources

__all__ = ["Instance", "instances"]

_FRONT = re.compile(r"\A---\n(.*?\n)---\n", re.DOTALL)
_KEY = re.compile(r"^(each|page):[ \t]*(.*?)[ \t]*\n", re.MULTILINE)
_SLOT = re.compile(r"\{([A-Za-z_]\w*)\}")
_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, slots=True)
class Instance:
    """One page to render: its name, its template, and the row it is about (None: a plain page)."""

    name: str
    template: str
    text: str
    row: Mapping[str, Any] | None = None


def instances(templates: Mapping[str, Template], sources: Sources) -> list[Instance]:
    """Every page of some templates, in their order and that of the rows.

    Raises:
        InputError: `each` without `page` or the other way round, a column that is missing, a value that is no
            file name, two pages of one name.
    """
    found: dict[str, Instance] = {}
    for name, template in templates.items():
        for page in _of(name, template, sources):
            if page.name in found:
                other = found[page.name].template
                raise InputError(
                    f"page {page.name} is made twice",
                    where=template.where,
                    fix=f"It also comes from {other}: put more columns into `page`.",
                )
            found[page.name] = page
    return list(found.values())


def _of(name: str, template: Template, sources: Sources) -> list[Instance]:
    text, where = template.text, template.where
    front = _FRONT.match(text)
    keys = dict(_KEY.findall(front.group(1))) if front else {}
    if front is None or not keys:
        return [Instance(name, where, text)]
    if set(keys) != {"each", "page"}:
        raise InputError(
            "`each` and `page` go together",
            where=where,
            fix='Write "each: QUERY" and "page: {COLUMN}" in the front matter.',
        )
    plain = f"---\n{_KEY.sub('', front.group(1))}---\n{text[front.end() :]}"
    folder = name.rpartition("/")[0]
    rows = sources.result(keys["each"]).rows
    return [Instance(_page(folder, keys["page"], row, where), where, plain, row) for row in rows]


def _page(folder: str, pattern: str, row: Mapping[str, Any], where: str) -> str:
    def fill(match: re.Match[str]) -> str:
        if match.group(1) not in row:
            raise InputError(
                f"page: the query returns no column {match.group(1)!r}",
                where=where,
                fix=f"It returns: {', '.join(row)}.",
            )
        return str(row[match.group(1)])

    made = _SLOT.sub(fill, pattern)
    if not all(_PART.fullmatch(part) for part in made.split("/")):
        raise InputError(
            f"page: {made!r} is no file name",
            where=where,
            fix="Letters, digits, dots, dashes and underscores.",
        )
    return f"{folder}/{made}.md".lstrip("/")
