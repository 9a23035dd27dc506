"""Reading a ledger from TOML, strictly: keys, references, units and circles are checked.

A claim stands in a `[[section]]` (`n` counts its numerals) or in a `[[table]]` (cells as rows).
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from fractions import Fraction
from keyword import iskeyword
from pathlib import Path
from typing import Any

from k3repro.claims._check import check_ledger
from k3repro.claims._claim import KINDS, Binding, Claim, Ledger, Premise, Relation, Rule
from k3repro.claims._formula import parse_formula
from k3repro.claims._rules import RULES
from k3repro.errors import InputError, K3Error
from k3repro.printed import DIMENSIONLESS, HEDGES, Unit, numerals, parse_unit

__all__ = ["LedgerError", "read_ledger", "read_ledger_text"]

_TOP = {"ledger", "premise", "rule", "section", "table"}
_LEDGER = {"id", "title", "sha256", "date", "primary", "about"}
_CLAIM = {
    "n",
    "cell",
    "amount",
    "id",
    "printed",
    "unit",
    "kind",
    "hedge",
    "of",
    "from",
    "same",
    "skip",
    "artifact",
    "statistic",
    "observations",
    "primary",
    "context",
    "note",
}
_COLUMN = {"id", "unit", "kind", "hedge", "of", "statistic", "observations", "same", "skip", "note"}
_RELATION = {"is", "rule", "assuming", "note"}
_BINDING = {"artifact", "query", "parameters", "tolerance", "tolerance_from", "scale"}
_TABLE = {"id", "at", "of", "columns", "rows", "check"}
_CHECK = _RELATION | {"column", "rows"}
_ID = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_OPERATORS = ("<=", ">=", "<", ">", "=")


class LedgerError(InputError):
    """A ledger is wrong; `code` is the rule that says how."""

    @property
    def code(self) -> str:
        return str(self.context.get("code", "K3C507"))


def _fail(what: str, where: str, fix: str = "", code: str = "K3C507") -> LedgerError:
    return LedgerError(f"{what} [{code}]", where=where, fix=fix, code=code)


def read_ledger(path: Path) -> Ledger:
    """Read and check a ledger.

    Raises:
        LedgerError: what is wrong; `code` is the rule.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise _fail(f"cannot be read: {error}", str(path)) from None
    return read_ledger_text(text, str(path))


def _file_name(text: str, where: str) -> str:
    """An id of a ledger names files beside it, so it must not lead elsewhere; empty stays empty."""
    if text and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", str(text)):
        raise _fail(f"the id {text!r} is no file name", where, "Use letters, digits, dots and dashes.")
    return text


def read_ledger_text(text: str, path: str = "ledger") -> Ledger:
    """As `read_ledger`, from text."""
    try:
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise _fail(f"is not TOML: {error}", path) from None
    ledger = _Reader(path).read(data)
    try:
        check_ledger(ledger)
    except LedgerError:
        raise
    except K3Error as error:
        code = str(error.context.get("code", "K3C507"))
        raise _fail(error.what, f"{path}: {error.where}" if error.where else path, error.fix, code) from None
    return ledger


class _Reader:
    def __init__(self, path: str) -> None:
        self.path = path
        self.claims: dict[str, Claim] = {}
        self.tokens: dict[str, str] = {}
        self.skips: dict[str, list[str]] = {}

    def read(self, data: Mapping[str, Any]) -> Ledger:
        self._known(data, _TOP, "ledger")
        head = data.get("ledger", {})
        self._known(head, _LEDGER, "[ledger]")
        for section in _list(data, "section", self.path):
            self._section(section)
        for table in _list(data, "table", self.path):
            self._table(table)
        self._inherit()
        premises = {premise.id: premise for premise in map(self._premise, _list(data, "premise", self.path))}
        return Ledger(
            id=_file_name(_text(head, "id", self.path), self.path),
            title=_text(head, "title", self.path),
            sha256=head.get("sha256", ""),
            claims=self.claims,
            premises=premises,
            rules=tuple(self._rules(_list(data, "rule", self.path))),
            path=self.path,
            date=str(head.get("date", "")),
            primary=_file_name(head.get("primary", ""), self.path),
            tokens=self.tokens,
        )

    def _inherit(self) -> None:
        """A mention has the unit and the kind of what it repeats, unless it says otherwise."""
        for identity, claim in self.claims.items():
            base = self.claims.get(claim.same)
            if base is not None:
                unit = claim.unit if claim.unit.name else base.unit
                kind = base.kind if claim.kind == "rounded" else claim.kind
                self.claims[identity] = replace(claim, unit=unit, kind=kind)

    def _known(self, data: Any, keys: set[str], where: str) -> None:
        if not isinstance(data, dict):
            raise _fail(f"needs a table, not {data!r}", f"{self.path}: {where}")
        unknown = sorted(set(data) - keys)
        if unknown:
            raise _fail(
                f"does not know {', '.join(unknown)}",
                f"{self.path}: {where}",
                f"Known: {', '.join(sorted(keys))}.",
            )

    def _premise(self, data: Mapping[str, Any]) -> Premise:
        where = f"{self.path}: premise {data.get('id', '?')}"
        self._known(data, {"id", "value", "unit", "source"}, where)
        identity = self._identity(_text(data, "id", where), where)
        text = _text(data, "value", where).replace(",", "")
        if not re.fullmatch(r"-?\d{1,40}(?:\.\d{1,40})?(?:e[+-]?\d{1,3})?", text):
            raise _fail(f"{text[:40]!r} is not a number", where)
        value = Fraction(text)
        return Premise(identity, value, self._unit(data, where), _text(data, "source", where))

    def _rules(self, entries: Iterable[Mapping[str, Any]]) -> Iterable[Rule]:
        known: set[str] = set()
        for data in entries:
            where = f"{self.path}: rule {data.get('id', '?')}"
            self._known(data, {"id", "reason", "count"}, where)
            name = _text(data, "id", where)
            known.add(name)
            places = tuple(self.skips.get(name, ()))
            if not places:
                raise _fail("explains no numeral", where, "Remove the rule.", "K3C506")
            if data.get("count") != len(places):
                raise _fail(f"says count = {data.get('count')}, but explains {len(places)} numerals", where)
            yield Rule(name, _text(data, "reason", where), len(places), places)
        for name in sorted(set(self.skips) - known):
            raise _fail(f"skips by rule {name!r}, which no [[rule]] defines", self.path, code="K3C501")

    def _section(self, data: Mapping[str, Any]) -> None:
        where = f"{self.path}: section {data.get('at', '?')}"
        self._known(data, {"at", "claims"}, where)
        at = _text(data, "at", where)
        for entry in _list(data, "claims", where):
            self._known(entry, _CLAIM, where)
            if not isinstance(entry.get("n"), int):
                raise _fail("a claim needs n, its position among the numerals of the section", where)
            cell = f".{entry['cell']}" if "cell" in entry else ""
            word = f"/{entry.get('id')}" if "amount" in entry else ""
            self._claim(entry, f"{at}{cell}#{entry['n']}{word}", entry)

    def _claim(self, entry: Mapping[str, Any], place: str, spec: Mapping[str, Any]) -> None:
        where = f"{self.path}: {place}"
        printed = _text(entry, "printed", where)
        if place in self.tokens:
            raise _fail("is covered twice", where)
        if "amount" not in spec:
            self.tokens[place] = printed
        if "skip" in spec:
            self.skips.setdefault(str(spec["skip"]), []).append(place)
            return
        same = spec.get("same", "")
        identity = self._identity(spec["id"], where) if "id" in spec else f"{same}@{place}" if same else ""
        if not identity or (same and "from" in spec):
            raise _fail("needs an id, or same = ID, or skip = RULE", where)
        if identity in self.claims:
            raise _fail(f"repeats the id {identity!r}", where)
        self.claims[identity] = self._build(identity, place, printed, spec, where)

    def _build(self, identity: str, place: str, printed: str, spec: Mapping[str, Any], where: str) -> Claim:
        kind, hedge = spec.get("kind", "rounded"), spec.get("hedge", "")
        if kind not in KINDS:
            raise _fail(f"has the unknown kind {kind!r}", where, f"Known: {', '.join(KINDS)}.")
        if hedge and hedge not in HEDGES:
            raise _fail(f"has the unknown hedge {hedge!r}", where, f"Known: {', '.join(HEDGES)}.")
        if len(numerals(spec.get("amount", printed))) != 1:
            fix = "A word such as linear needs amount, the number it amounts to, and n = 0."
            raise _fail(f"prints {printed!r}, which is not one numeral", where, fix)
        return Claim(
            id=identity,
            place=place,
            printed=printed,
            unit=self._unit(spec, where),
            kind=kind,
            hedge=hedge,
            of=spec.get("of", ""),
            same=spec.get("same", ""),
            statistic=spec.get("statistic", ""),
            observations=spec.get("observations", ""),
            primary=spec.get("primary", ""),
            context=spec.get("context", ""),
            note=spec.get("note", ""),
            amount=spec.get("amount", ""),
            relations=tuple(self._relation(identity, item, where) for item in _items(spec.get("from", []))),
            bindings=tuple(self._binding(item, where) for item in _items(spec.get("artifact", []))),
        )

    def _relation(self, identity: str, item: Any, where: str) -> Relation:
        data = {"is": item} if isinstance(item, str) else item
        self._known(data, _RELATION, where)
        text = _text(data, "is", where).strip()
        operator = next((symbol for symbol in _OPERATORS if text.startswith(symbol)), "=")
        body = text.removeprefix(operator)
        if data.get("rule", "") and data["rule"] not in RULES:
            raise _fail(f"has the unknown rule {data['rule']!r}", where, "See `k3repro audit claims --help`.")
        try:
            formula = parse_formula(body, where)
        except K3Error as error:
            raise _fail(error.what, where, error.fix) from None
        return Relation(
            identity,
            operator,
            formula,
            data.get("rule", ""),
            data.get("assuming", ""),
            data.get("note", ""),
            text,
        )

    def _binding(self, data: Mapping[str, Any], where: str) -> Binding:
        self._known(data, _BINDING, where)
        given = [data.get(key, 0) for key in ("tolerance", "scale")]
        if not all(isinstance(value, int | float) and math.isfinite(value) for value in given):
            raise _fail("tolerance and scale are numbers", where)
        tolerance, scale = Fraction(str(data.get("tolerance", 0))), Fraction(str(data.get("scale", 1)))
        if tolerance and not data.get("tolerance_from"):
            raise _fail(
                "has a tolerance without tolerance_from", where, "Say where the tolerance comes from."
            )
        return Binding(
            _text(data, "query", where),
            data.get("artifact", ""),
            dict(data.get("parameters", {})),
            tolerance,
            data.get("tolerance_from", ""),
            scale,
        )

    def _table(self, data: Mapping[str, Any]) -> None:
        where = f"{self.path}: table {data.get('id', '?')}"
        self._known(data, _TABLE, where)
        identity, at = self._identity(_text(data, "id", where), where), _text(data, "at", where)
        columns = data.get("columns", {})
        if not isinstance(columns, dict) or not all(
            isinstance(c, dict) for s in columns.values() for c in _items(s)
        ):
            raise _fail("needs columns, lists of tables by column", where)
        checks = [self._known_check(check, columns, where) for check in _list(data, "check", where)]
        for row in _list(data, "rows", where):
            self._known(row, {"r", "id", "cells"}, where)
            if not isinstance(row.get("cells"), dict) or not isinstance(row.get("id"), str):
                raise _fail("a row needs r, id and cells", where)
            self._row(identity, at, row, columns, checks, where)

    def _known_check(self, check: Any, columns: Mapping[str, Any], where: str) -> Mapping[str, Any]:
        self._known(check, _CHECK, f"{where}, check")
        names = {
            spec.get("id") for specs in columns.values() for spec in _items(specs) if isinstance(spec, dict)
        }
        if check.get("column") not in names:
            raise _fail(f"checks the unknown column {check.get('column')!r}", where, code="K3C501")
        return dict(check)

    def _row(
        self,
        table: str,
        at: str,
        row: Mapping[str, Any],
        columns: Mapping[str, Any],
        checks: list[Mapping[str, Any]],
        where: str,
    ) -> None:
        name = f"{table}.{row.get('id')}"
        for key, text in row.get("cells", {}).items():
            specs = _items(columns.get(key, []))
            found = [numeral.token for numeral in numerals(text)]
            if len(found) > len(specs):
                raise _fail(
                    f"row {row.get('id')}, column {key} has {len(found)} numerals, not {len(specs)}",
                    where,
                )
            for index, (token, spec) in enumerate(zip(found, specs, strict=False), start=1):
                self._known(spec, _COLUMN, where)
                place = f"{at}.r{row.get('r')}.{key}#{index}"
                self._cell(name, token, place, spec, row, checks)

    def _cell(
        self,
        name: str,
        token: str,
        place: str,
        spec: Mapping[str, Any],
        row: Mapping[str, Any],
        checks: list[Mapping[str, Any]],
    ) -> None:
        if "skip" in spec or "same" in spec:
            self._claim({"printed": token}, place, spec)
            return
        merged = {key: _rename(value, name) for key, value in spec.items()} | {"id": f"{name}.{spec['id']}"}
        merged["from"] = [
            {key: _rename(value, name) for key, value in check.items() if key in _RELATION}
            for check in checks
            if check["column"] == spec["id"] and row["id"] in check.get("rows", [row["id"]])
        ]
        self._claim({"printed": token}, place, merged)

    def _identity(self, name: Any, where: str) -> str:
        if not isinstance(name, str) or not _ID.fullmatch(name) or any(map(iskeyword, name.split("."))):
            raise _fail(
                f"{name!r} is no id",
                where,
                "Join words of letters and digits by dots; none starts with a digit or is a keyword.",
            )
        return name

    def _unit(self, spec: Mapping[str, Any], where: str) -> Unit:
        try:
            return parse_unit(spec["unit"]) if spec.get("unit") else DIMENSIONLESS
        except K3Error as error:
            raise _fail(error.what, where, error.fix) from None


def _rename(value: Any, row: str) -> Any:
    """`row.out` in a table's formula is the cell of the same row."""
    return re.sub(r"\brow\.", f"{row}.", value) if isinstance(value, str) else value


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _list(data: Mapping[str, Any], key: str, where: str) -> list[Any]:
    value = data.get(key, [])
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise _fail(f"{key} is a list of tables", where)
    return value


def _text(data: Mapping[str, Any], key: str, where: str) -> str:
    value = data.get(key)
    if not isinstance(value, str) or not value:
        raise _fail(f"needs {key}, a text", where)
    return value
