"""Elements that claim to be bound: each is made again from its query and compared, node by node."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from k3repro.errors import K3Error
from k3repro.report._behind import behind_text, result_seals
from k3repro.report._charts import chart_problems
from k3repro.report._console import console_html
from k3repro.report._figures import chart_rows, cited_seals, svg_of
from k3repro.report._finding import Finding, found
from k3repro.report._grammar import Grammar
from k3repro.report._html import fragment, same_bytes, shape, text_of
from k3repro.report._journey import steps_html
from k3repro.report._markup import sha256
from k3repro.report._sizing import grid_name, grid_text, sizing_html
from k3repro.report._sources import Sources, rows_digest
from k3repro.report._spec import refuse_nan, spec_problems
from k3repro.report._switches import switches_of
from k3repro.report._tables import further_rows, table_html, tier_badges
from k3repro.report._tree import further_nodes, tree_html
from k3repro.report._values import relation_badge, value_html
from k3repro.report._withdrawn import withdrawn_items
from k3repro.store import Store

__all__ = ["Known", "PageCheck"]

_AGAIN = "Build the site again from its artifacts."


@dataclass(frozen=True)
class Known:
    """Digests that a page may print, and the folder that holds the sources it quotes."""

    root: Path
    digests: frozenset[str]
    withdrawn: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, root: Path, sources: Sources) -> Known:
        heads = {path.stem for path in (root / "artifacts" / "ledger").glob("*.json")}
        rows = sources.artifacts.values()
        digests = frozenset(heads | {row["seal"] for row in rows} | {row["data"] for row in rows})
        return cls(root, digests, withdrawn_items(Store(root / "artifacts")))


@dataclass
class PageCheck:
    """The bound elements of one page: those that prove true join `bound`, the others become findings."""

    name: str
    root: Any
    sources: Sources
    known: Known
    grammar: Grammar
    findings: list[Finding] = field(default_factory=list)
    bound: set[Any] = field(default_factory=set)
    values: int = 0
    seals: set[str] = field(default_factory=set)
    quoted: set[str] = field(default_factory=set)
    further: dict[str, list[str]] = field(default_factory=dict)
    grids: dict[str, str] = field(default_factory=dict)  # data files of forms, as they should be

    @property
    def base(self) -> str:
        return "../" * self.name.count("/")

    def run(self) -> None:
        """Look at every element that claims a source."""
        checks: list[tuple[str, Callable[[Any], None]]] = [
            ("//table[@data-query]", self._table),
            ("//ul[@data-query]", self._tree),
            ("//ol[@data-query]", self._steps),
            ("//data[contains(concat(' ',@class,' '),' k3-value ')]", self._value),
            ("//span[contains(@class,'k3-relation')][@data-query]", self._relation),
            ("//data[contains(@class,'k3-digest')]", self._digest),
            ("//li[@class='k3-withdrawn']", self._withdrawn),
            ("//code[@data-source]", self._source),
            ("//form[contains(@class,'k3-sizing')]", self._sizing),
            ("//div[contains(@class,'k3-console')]", self._console),
            ("//script[contains(@class,'k3-console-data')]", self._inside),
            ("//figure[contains(@class,'k3-figure')]", self._figure),
        ]
        for path, check in checks:
            for element in self.root.xpath(path):
                self._guard(element, check)

    def _guard(self, element: Any, check: Callable[[Any], None]) -> None:
        try:
            check(element)
        except K3Error as error:
            self._find(element, error.what, error.fix)
        except (
            ValueError,
            TypeError,
            KeyError,
            AttributeError,
            LookupError,
            OSError,
            RecursionError,
        ) as error:
            self._find(element, f"malformed binding ({type(error).__name__})")

    def _find(self, element: Any, what: str, fix: str = _AGAIN) -> None:
        key = element.get("id") or element.get("data-query") or element.get("data-source") or ""
        self.findings.append(
            found(f"{self.name} <{element.tag}{' ' + key if key else ''}>", what, "bound", fix)
        )

    def _compare(self, element: Any, expected: Any, noun: str, *, skip: str = "") -> None:
        """Bind the element when it is what its artifacts say, else say the first place where it is not."""
        if same_bytes(element, expected):
            self.bound.add(element)
            return
        mine, theirs = shape(element, skip=skip), shape(expected, skip=skip)
        if mine == theirs:
            self.bound.add(element)
        else:
            self._find(element, f"the {noun} shows {_first_difference(mine, theirs)}")

    def _value(self, element: Any) -> None:
        query, column = element.attrib["data-query"], element.attrib["data-column"]
        html = value_html(
            self.sources, query, column,
            where=_where(element), format=element.get("data-format"), unit=element.get("data-unit"),
        )  # fmt: skip
        expected = fragment(html)
        if re.fullmatch(re.escape(expected.get("id")) + r"(-\d+)?", element.get("id", "")):
            expected.set("id", element.get("id"))
        self._compare(element, expected, "value")
        self._count(query, 1)

    def _table(self, table: Any) -> None:
        query, options = table.attrib["data-query"], self._options(table)
        html = table_html(self.sources, query, **options)
        rest = further_rows(self.sources, query, **options)
        self._further(table, rest)
        expected = fragment(html.replace("{caption}", "", 1))
        captions = table.findall("caption")
        self._compare(table, expected, "table", skip="caption")
        if table in self.bound:
            # the caption is free text: it passes the gate, the rest of the table does not need to
            self.bound.discard(table)
            self.bound.update(child for child in table if child.tag != "caption")
        if len(captions) > 1:
            self._find(table, "more than one caption")
        folded = sum(row.count(" data-value=") for row in rest)
        self._count(query, len(table.xpath(".//td[@data-value]")) + folded)

    def _tree(self, element: Any) -> None:
        query, options = element.attrib["data-query"], self._options(element)
        html = tree_html(self.sources, query, **options)
        self._further(element, further_nodes(self.sources, query, **options))
        self._compare(element, fragment(html), "tree")
        self._count(query, len(element.xpath(".//li")))

    def _options(self, element: Any) -> dict[str, Any]:
        columns = element.get("data-columns")
        return {
            "where": _where(element),
            "columns": columns.split() if columns else None,
            "base": self.base,
        }

    def _further(self, element: Any, rows: list[str]) -> None:
        """Rows that the page's data file owes this table, under the id it stands in."""
        if rows:
            self.further[element.xpath("ancestor-or-self::*[@id][1]")[0].get("id")] = rows

    def _steps(self, element: Any) -> None:
        query = element.attrib["data-query"]
        html = steps_html(self.sources, query, where=_where(element), base=self.base)
        self._compare(element, fragment(html), "journey")
        self._count(query, len(element))

    def _relation(self, element: Any) -> None:
        query, where = element.attrib["data-query"], _where(element)
        relations = {row["relation"] for row in self.sources.result(query).select(where)}
        if relations != {element.get("data-relation")}:
            self._find(element, f"the relation is {sorted(map(str, relations))}")
            return
        self._compare(
            element, fragment(relation_badge(element.attrib["data-relation"], query, where)), "relation"
        )

    def _digest(self, element: Any) -> None:
        value, text = element.get("value", ""), text_of(element)
        if (
            value in self.known.digests
            and len(text) >= 8
            and value.startswith(text)
            and not element.get("title")
        ):
            self.bound.add(element)
        else:
            self._find(element, f"{text!r} is no digest of this site's artifacts or ledger")

    def _withdrawn(self, element: Any) -> None:
        expected = self.known.withdrawn.get(element.get("data-seal", ""))
        if expected is None:
            self._find(element, "no such withdrawal in the ledger that ships")
        else:
            self._compare(element, fragment(expected), "withdrawal")

    def _source(self, element: Any) -> None:
        path, text = element.attrib["data-source"], text_of(element)
        file = (self.known.root / "sources" / path).resolve()
        inside = file.is_relative_to((self.known.root / "sources").resolve()) and file.is_file()
        digest = sha256(text)
        same_query = not path.startswith("queries/") or self.sources.result(path[8:-4]).query.sql == text
        extra = set(element.attrib) - {"data-source", "data-sha256", "data-language"}
        if (
            inside
            and digest == element.get("data-sha256") == sha256(file.read_bytes())
            and same_query
            and not extra
        ):
            self.bound.add(element)
            self.quoted.add(path)
        else:
            self._find(element, f"the code is not the bytes of {path}")

    def _figure(self, figure: Any) -> None:
        scripts = figure.xpath(".//script[contains(@class,'k3-spec')]")
        drawings = figure.xpath("./div[@class='k3-chart']/div[@class='k3-static']")
        if len(scripts) != 1 or len(drawings) != 1:
            self._find(figure, "a figure has one specification and one drawing")
            return
        spec = json.loads(scripts[0].text or "")
        query, where = spec["usermeta"]["query"], spec["usermeta"]["where"]
        if query != figure.get("data-query") or spec["usermeta"]["name"] != figure.get("data-figure"):
            self._find(figure, "the specification belongs to another figure")
            return
        problem = self._spec_problem(spec, query, where)
        if problem:
            self._find(figure, problem)
            return
        drawn = fragment(f"<p>{tier_badges(self.sources, spec['usermeta']['artifacts'])}</p>")
        told = figure.xpath("./figcaption/span[contains(@class,'k3-tier')]")
        if "k3-mini" not in figure.get("class") and [shape(e) for e in told] != [shape(e) for e in drawn]:
            self._find(figure, "its caption does not wear the badges of what it draws")
        self.bound.add(scripts[0])
        expected = fragment(f'<div class="k3-static">{svg_of(spec)}</div>')
        self._compare(drawings[0], expected, "drawing")
        self._count(query, len(spec["datasets"]["rows"]))

    def _spec_problem(self, spec: dict[str, Any], query: str, where: dict[str, Any]) -> str:
        refuse_nan(spec, f"figure {spec['usermeta']['name']}")
        result = self.sources.result(query)
        rows = spec["datasets"]["rows"]
        if set(spec["datasets"]) != {"rows"} or "config" in spec or "data" not in _keys(spec):
            return "the chart carries data or configuration of its own"
        columns = list(rows[0]) if rows else []
        expected = [{name: row[name] for name in columns} for row in chart_rows(result, where)]
        if rows != expected:
            return f"the chart's data differ from the query's rows: {_first_row_difference(rows, expected)}"
        meta = {
            "name": spec["usermeta"]["name"], "query": query, "where": where, "sql": result.query.sha256,
            "artifacts": cited_seals(self.sources, result, where, "figure"), "data": rows_digest(rows),
        }  # fmt: skip
        if "switches" in spec["usermeta"]:
            named = [f"{item['kind']}:{item['name']}" for item in spec["usermeta"]["switches"]]
            meta["switches"] = switches_of(spec, result.query, named, "figure")
        if spec["usermeta"] != meta:
            return "the chart's usermeta is not what its artifacts say"
        tiers = {str(self.sources.artifacts[seal]["tier"]) for seal in meta["artifacts"]}
        problems = [
            *(f"the chart holds {problem}" for problem in spec_problems(spec, self.grammar.numbers)),
            *(f"the chart has {problem}" for problem in chart_problems(spec, result.query, expected, tiers)),
        ]
        return problems[0] if problems else ""

    def _sizing(self, form: Any) -> None:
        query = form.attrib["data-query"]
        self._compare(form, fragment(sizing_html(self.sources, query)), "sizing form")
        self.grids[grid_name(query)] = grid_text(self.sources, query)
        self._count(query, len(form.xpath(".//input")))

    def _console(self, element: Any) -> None:
        self._compare(element, fragment(console_html(self.sources)), "console")

    def _inside(self, script: Any) -> None:
        if not any(parent in self.bound for parent in script.iterancestors()):
            self._find(script, "data outside of what its artifacts give")

    def behind(self) -> str:
        """The page's data file as its artifacts give it: SQL, facts of artifacts, further rows."""
        queries = {str(name) for name in self.root.xpath("//@data-query")}
        known = {name for name in queries if name in self.sources.queries}
        try:
            return behind_text(self.sources, self.base, known, self.further)
        except K3Error as error:
            self._find(self.root, error.what, error.fix)
            return ""

    def _count(self, query: str, values: int) -> None:
        self.values += values
        self.seals |= result_seals(self.sources, query)


def _where(element: Any) -> dict[str, Any] | None:
    text = element.get("data-where")
    where = json.loads(text) if text else None
    if where is not None and not isinstance(where, dict):
        raise ValueError("data-where is not an object")
    return where


def _keys(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set(value) | {key for item in value.values() for key in _keys(item)}
    if isinstance(value, list):
        return {key for item in value for key in _keys(item)}
    return set()


def _first_difference(mine: tuple[Any, ...], theirs: tuple[Any, ...]) -> str:
    """The first pair of leaves in which two shapes part: `'3.2 s', its artifacts say '3.1 s'`."""
    for left, right in zip(mine, theirs, strict=False):
        if left != right:
            if isinstance(left, tuple) and isinstance(right, tuple):
                return _first_difference(left, right)
            return f"{left!r}, its artifacts say {right!r}"
    longer = mine if len(mine) > len(theirs) else theirs
    extra = repr(longer[min(len(mine), len(theirs)) :])[:80]
    return f"{'more' if longer is mine else 'less'} than its artifacts say: {extra}"


def _first_row_difference(mine: Any, theirs: list[dict[str, Any]]) -> str:
    if not isinstance(mine, list) or len(mine) != len(theirs):
        return "another number of rows"
    index = next(i for i, (left, right) in enumerate(zip(mine, theirs, strict=True)) if left != right)
    return f"row {index} is {mine[index]}, not {theirs[index]}"
