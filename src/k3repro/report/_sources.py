"""Rows for pages: named queries over a catalog, once each, with the artifacts every row cites."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache, cached_property
from typing import Any, Protocol, TypeVar

from k3repro.errors import GateFailed, InputError
from k3repro.report._grammar import Grammar, names_only
from k3repro.report._kept import KEPT
from k3repro.report._literals import literals
from k3repro.report._markup import canonical_json, sha256
from k3repro.report._queries import ColumnSpec, Query
from k3repro.spec import vocabulary
from k3repro.store import weakest

__all__ = ["Citation", "Queryable", "Result", "Sources"]

T = TypeVar("T")
_CLAIMS = (
    "SELECT subject, section, page, claim, same, printed, unit, verdict FROM claims_audit_claims"
    " ORDER BY subject, claim"
)
_WORD = re.compile(r"\w+")
_NO_VIEW = re.compile(r"Catalog Error: Table with name \S+ does not exist")
# A level of confidence names a bound as p99 names a quantile.
_LEVEL = re.compile(r"\((?:one-sided, )?(?:90|95|99) %\)")
_COUNTS = {
    "n": "n",
    "n_requests": "requests",
    "n_runs": "runs",
    "n_serves": "serves",
    "n_allocations": "allocations",
}


class Queryable(Protocol):
    """What a catalog offers: the store's own, or one over a stranger's files."""

    def query(self, sql: str, parameters: Any = ...) -> list[dict[str, Any]]: ...


class Later:
    """A catalog that is opened when it is first asked."""

    def __init__(self, opened: Callable[[], Queryable]) -> None:
        self._open = cache(opened)

    def query(self, sql: str, parameters: Any = None) -> list[dict[str, Any]]:
        """The rows of a query, as the catalog gives them."""
        return self._open().query(sql, parameters)


@dataclass(frozen=True, slots=True)
class Citation:
    """Where a cell comes from: seals, tier, weakest basis, sample sizes."""

    seals: tuple[str, ...]
    tier: str
    basis: str
    n: str


@dataclass(frozen=True)
class Result:
    """The rows of one query, JSON values only."""

    query: Query
    rows: list[dict[str, Any]]
    columns: tuple[str, ...]
    _groups: dict[tuple[str, ...], dict[str, list[dict[str, Any]]]] = field(
        default_factory=dict, compare=False, repr=False
    )

    def select(self, where: Mapping[str, Any] | None) -> list[dict[str, Any]]:
        """The rows whose columns equal `where`.

        Raises:
            InputError: `where` names a column the query does not return.
        """
        wanted = dict(where or {})
        for name in wanted:
            self.require(name)
        if not wanted or not self.rows:
            return list(self.rows)
        # a page per group of rows asks for each group, so the rows are sorted into groups once
        names = tuple(sorted(wanted))
        if names not in self._groups:
            self._groups[names] = _grouped(self.rows, names)
        return list(self._groups[names].get(_group_key(wanted[name] for name in names), ()))

    @cached_property
    def seals(self) -> frozenset[str]:
        """Every artifact that the rows cite."""
        names = [name for name in self.columns if "seal" in name.split("_")]
        cells = [row[name] for row in self.rows for name in names if row[name]]
        return frozenset(s for cell in cells for s in (cell if isinstance(cell, list) else [cell]))

    def require(self, column: str) -> ColumnSpec:
        """The description of a column that must exist."""
        if self.rows and column not in self.columns:
            raise InputError(
                f"the query returns no column {column!r}",
                where=self.query.where,
                fix=f"It returns: {', '.join(self.columns)}.",
            )
        return self.query.column(column)

    def visible(self) -> list[str]:
        """Columns a table shows when nobody chose: all but seals, counts the card shows, and hidden ones."""
        return [name for name in self.columns if not _is_seal(name) and not self.query.column(name).hide]


def _grouped(rows: Sequence[dict[str, Any]], names: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(_group_key(row[name] for name in names), []).append(row)
    return groups


def _group_key(values: Iterable[Any]) -> str:
    """Values as text under which equal ones meet, as `==` has it: 1 and 1.0 and True."""
    plain = [float(value) if isinstance(value, int | float) else value for value in values]
    return canonical_json(plain)


def _is_seal(name: str) -> bool:
    return name == "seal" or name.startswith("seal_") or name.endswith(("_seal", "_seals"))


@dataclass
class Sources:
    """Named queries over one catalog, and the files that ship with the site."""

    catalog: Queryable
    queries: dict[str, Query]
    files: dict[str, tuple[str, int]] = field(default_factory=dict)  # seal -> (path in the site, bytes)
    withdrawn: dict[str, str] = field(default_factory=dict)  # seal -> its line in the artifact browser
    vouched: dict[str, frozenset[str]] = field(default_factory=dict)  # seal -> who signed for it
    grammar: Grammar = field(default_factory=lambda: Grammar(names_only(vocabulary())))
    identity: str = ""  # digest of what the catalog holds and of the code that reads it: rows may be kept
    _asked: set[str] = field(default_factory=set)
    _results: dict[str, Result] = field(default_factory=dict)
    _artifacts: dict[str, dict[str, Any]] | None = None
    _claims: list[dict[str, Any]] | None = None
    _made: dict[str, Any] = field(default_factory=dict)
    _tiers: dict[tuple[str, ...], tuple[str, str]] = field(default_factory=dict)

    @property
    def artifacts(self) -> dict[str, dict[str, Any]]:
        """Seal -> row of the catalog's `artifacts` view."""
        if self._artifacts is None:
            rows = self._ask("SELECT * FROM artifacts ORDER BY seal")
            self._artifacts = {str(row["seal"]): _plain_row(row, "artifacts") for row in rows}
        return self._artifacts

    @property
    def claims(self) -> list[dict[str, Any]]:
        """Every printing of every claim, with its verdict; none where no document was audited."""
        if self._claims is None:
            try:
                self._claims = self._ask(_CLAIMS)
            except InputError:
                self._claims = []
        return self._claims

    def made(self, key: Any, make: Callable[[], Any]) -> Any:
        """What `make` gives, once for these rows: pages ask for it, and so does who checks the pages."""
        text = canonical_json(key)
        if text not in self._made:
            self._made[text] = self.watched(make)
        value, asked = self._made[text]
        self._asked |= asked
        return value

    def watched(self, make: Callable[[], T]) -> tuple[T, set[str]]:
        """What `make` gives, and the names of the queries that it asked."""
        outer, self._asked = self._asked, set()
        try:
            value = make()
            return value, self._asked
        finally:
            self._asked = outer | self._asked

    def result(self, name: str) -> Result:
        """The rows of a named query; run once, then remembered.

        Raises:
            InputError: no such query. GateFailed: no rows though the query declares none to be empty.
        """
        self._asked.add(name)
        if name not in self._results:
            self._results[name] = self._run(name)
        return self._results[name]

    def _run(self, name: str) -> Result:
        query = self.queries.get(name)
        if query is None:
            known = ", ".join(sorted(self.queries)) or "none"
            raise InputError(f"no query is named {name!r}", where="site/queries", fix=f"There are: {known}.")
        where = query.where
        if written := literals(query.sql, self.grammar):
            raise GateFailed(
                f"the query writes {written[0]!r} where it should read it",
                where=where,
                fix="Read it from a column, or count rows; units may be converted.",
            )
        self._check_heads(query, where)
        rows = [_plain_row(row, name) for row in self._rows(query)]
        if not rows and not query.empty:
            raise GateFailed(
                "the query returned no rows",
                where=where,
                fix="Run its probe, or declare `-- empty: why` in the file.",
            )
        columns = tuple(rows[0]) if rows else ()
        query = self._described(query, columns)
        if rows and not any(_is_seal(column) for column in columns):
            raise GateFailed(
                "the query returns no `seal` column", where=where, fix="Select the seals each row cites."
            )
        return Result(query, rows, columns)

    @cached_property
    def declared(self) -> dict[str, dict[str, set[tuple[str, str]]]]:
        """View -> column -> (unit, doc) as artifacts declare them; several where they differ."""
        found: dict[str, dict[str, set[tuple[str, str]]]] = {}
        for row in self.artifacts.values():
            for table in json.loads(row.get("schema") or '{"tables": []}')["tables"]:
                view = found.setdefault(f"{row['name'].replace('-', '_')}_{table['name']}", {})
                for column in table["columns"]:
                    view.setdefault(column["name"], set()).add((column["unit"], column.get("doc", "")))
        return found

    def _described(self, query: Query, columns: Sequence[str]) -> Query:
        """The query with unit and description of what its header leaves out, from the tables it reads."""
        read = [self.declared[view] for view in sorted({*_WORD.findall(query.sql)}) if view in self.declared]
        known = dict(query.columns)
        for name in columns:
            said = {one for view in read for one in view.get(name, ())}
            if name in known:
                continue
            known[name] = query.column(name)
            if len({unit for unit, _ in said}) == 1:
                unit, doc = min(said)
                about = "" if len(said) > 1 or self.grammar.numbers(doc) else doc
                known[name] = dataclasses.replace(known[name], unit=unit, about=about)
        return dataclasses.replace(query, columns=known)

    def _rows(self, query: Query) -> list[dict[str, Any]]:
        """The rows; none where a query that may be empty asks for a kind of artifact nobody has sealed."""
        try:
            return self._ask(query.sql)
        except InputError as error:
            if query.empty and _NO_VIEW.match(error.what):
                return []
            raise

    def _ask(self, sql: str) -> list[dict[str, Any]]:
        return self.kept("rows", sql, lambda: self.catalog.query(sql))

    def kept(self, kind: str, sql: str, make: Callable[[], T]) -> T:
        """What `make` gives for some SQL, or gave in an earlier build over the same artifacts."""
        return KEPT.get(kind, [self.identity, sql], make) if self.identity else make()

    def _check_heads(self, query: Query, where: str) -> None:
        """Heads of tables are bound to nothing, so they hold no number but the level of a bound."""
        for spec in query.columns.values():
            _check_unit(spec, where)
            for text in (_LEVEL.sub("", spec.label), spec.unit, spec.about):
                if written := self.grammar.numbers(text):
                    raise GateFailed(
                        f"column {spec.name} is described with {written[0]!r}",
                        where=where,
                        fix="Say it in words, or return it in a column.",
                    )

    def cite(self, row: Mapping[str, Any], spec: ColumnSpec, where: str) -> Citation:
        """The artifacts behind one cell.

        Raises:
            GateFailed: the row cites nothing, or something the catalog does not hold.
        """
        raw = row.get(spec.seal) if spec.seal in row else row.get("seal")
        seals = tuple(sorted({str(item) for item in (raw if isinstance(raw, list) else [raw]) if item}))
        if not seals:
            raise GateFailed(
                f"no artifact is cited for {spec.name}", where=where, fix="Return a seal with every row."
            )
        if seals not in self._tiers:
            missing = [seal for seal in seals if seal not in self.artifacts]
            if missing:
                raise GateFailed(
                    f"artifact {missing[0][:12]} is not in the catalog", where=where, fix="Was it retracted?"
                )
            self._tiers[seals] = self._tier(seals)
        tier, basis = self._tiers[seals]
        return Citation(seals, tier, basis, sample_size(row, spec))

    def tier_of(self, seal: str) -> tuple[str, str]:
        """Tier of one artifact, and for a derived one the weakest tier of its inputs."""
        row = self.artifacts[seal]
        tier = str(row["tier"])
        return tier, str(row["basis"] or "") if tier == "derived" else ""

    def _tier(self, seals: Sequence[str]) -> tuple[str, str]:
        """What several artifacts amount to: their common tier, else derived from the weakest of them."""
        each = {self.tier_of(seal) for seal in seals}
        basis = weakest({basis or tier for tier, basis in each})
        tiers = {tier for tier, _ in each}
        if len(tiers) > 1:
            return "derived", basis
        tier = tiers.pop()
        return tier, basis if tier == "derived" else ""


_NAMED = re.compile(r"_(s|ms|us|ns|min|gib|mib|gb|mb)\Z")
_UNITS = {"us": "µs", "gib": "GiB", "mib": "MiB", "gb": "GB", "mb": "MB"}
_FAMILIES = ({"s", "ms", "µs", "ns", "min", "h"}, {"B", "KB", "MB", "GB", "TB", "KiB", "MiB", "GiB", "TiB"})


def _check_unit(spec: ColumnSpec, where: str) -> None:
    """A column called `wall_s` is in seconds."""
    match = _NAMED.search(spec.name)
    named = _UNITS.get(match.group(1), match.group(1)) if match else ""
    if named and spec.unit != named and any(named in kind and spec.unit in kind for kind in _FAMILIES):
        raise GateFailed(
            f"column {spec.name} is said to be in {spec.unit}", where=where, fix=f"Say {named}, or rename it."
        )


def sample_size(row: Mapping[str, Any], spec: ColumnSpec) -> str:
    """`requests=57 serves=1`, from the row's counting columns; empty when it has none."""
    counts = {label: row.get(name) for name, label in _COUNTS.items()}
    if spec.n:
        counts["n"] = row.get(spec.n)
    return " ".join(f"{name}={value}" for name, value in counts.items() if value is not None)


def rows_digest(rows: Sequence[Mapping[str, Any]]) -> str:
    """SHA-256 of rows as canonical JSON."""
    return sha256(canonical_json([dict(row) for row in rows]))


def _plain_row(row: Mapping[str, Any], where: str) -> dict[str, Any]:
    return {name: _plain(value, f"{where}: {name}") for name, value in row.items()}


def _plain(value: Any, where: str) -> Any:
    """JSON types only: instants become ISO text in UTC, decimals doubles; NaN is refused."""
    match value:
        case None | bool() | str():
            return value
        case int():
            return value
        case float() | Decimal():
            if not math.isfinite(value):
                raise InputError(
                    "NaN or infinity in a query", where=where, fix="Store NULL and a reason instead."
                )
            return float(value)
        case dt.datetime():
            utc = value.astimezone(dt.UTC) if value.tzinfo else value
            return utc.replace(tzinfo=None).isoformat() + "Z"
        case list() | tuple():
            return [_plain(item, where) for item in value]
        case dict():
            return canonical_json(value)
        case _:
            return str(value)
