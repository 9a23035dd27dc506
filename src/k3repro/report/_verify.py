"""A built site against its sources: every bound element made again and compared, everything else through the
gate.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import pickle
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any

from k3repro.report import _bound, _scripts
from k3repro.report._allowlist import Exemption, load_exemptions, load_grammar
from k3repro.report._behind import behind_name
from k3repro.report._figures import use_utc
from k3repro.report._files import file_sha256
from k3repro.report._finding import Finding, found
from k3repro.report._gate import PLACES, Hit, scan_css, scan_tree
from k3repro.report._grammar import Grammar
from k3repro.report._html import parse_page
from k3repro.report._kept import DRAWING, KEPT
from k3repro.report._outline import Outline, Said, said_on
from k3repro.report._own import OwnPages
from k3repro.report._pages import csv_of
from k3repro.report._pair_rules import check_pairs
from k3repro.report._parquet import parquet_of
from k3repro.report._search import INDEX, index_text, page_entries
from k3repro.report._site import Template
from k3repro.report._sources import Sources
from k3repro.report._structure import check_structure, links_of, unreached
from k3repro.report._templates import scan_templates
from k3repro.report._theme import THEME, theme_css, tokens_of
from k3repro.report._workers import Helper, portable

__all__ = ["Outcome", "check_page", "help_out", "verify_tree"]

MANY_PAGES = 30  # from here on a second process pays for its start

_BIND = "Bind it with {{ value(...) }}, or reword the sentence."


@dataclass
class Outcome:
    """What a verification saw."""

    findings: list[Finding] = field(default_factory=list)
    pages: int = 0
    values: int = 0
    seals: set[str] = field(default_factory=set)
    quoted: set[str] = field(default_factory=set)
    entries: dict[str, list[list[Any]]] = field(default_factory=dict)  # of the search, by page
    links: dict[str, set[str]] = field(default_factory=dict)  # to other pages, by page
    behind: dict[str, str] = field(default_factory=dict)  # data files of pages, as they should be
    said: dict[str, Said] = field(default_factory=dict)  # by page
    unlike: dict[str, Outline | str] = field(default_factory=dict)  # what `own` has in their place, by page
    tokens: set[str] = field(default_factory=set)  # what the rules of a style sheet can meet

    @property
    def artifacts(self) -> int:
        return len(self.seals)

    def join(self, other: Outcome) -> None:
        """Add what was seen elsewhere."""
        self.findings += other.findings
        self.pages, self.values = self.pages + other.pages, self.values + other.values
        self.seals |= other.seals
        self.quoted |= other.quoted
        self.entries |= other.entries
        self.links |= other.links
        self.behind |= other.behind
        self.said |= other.said
        self.unlike |= other.unlike
        self.tokens |= other.tokens


def verify_tree(
    root: Path,
    sources: Sources,
    *,
    templates: Mapping[str, Template] | None = None,
    places: frozenset[str] = PLACES,
    grammar: Grammar | None = None,
    own: OwnPages | None = None,
    most_s: float = math.inf,
) -> Outcome:
    """Check every page, script, style sheet, CSV and query below `root`.

    templates: page templates, to say line numbers of what the gate finds in them. own: what the pages should
    say. most_s: seconds of work (of the processor) after which the rest is reported as not looked at.
    """
    grammar = grammar or load_grammar(root / "gate")
    exemptions = load_exemptions(root / "gate")
    outcome, used = Outcome(), set[Exemption]()
    if templates:
        outcome.findings += scan_templates(templates, grammar, exemptions)
    known = _bound.Known.of(root, sources)
    paths = sorted(root.rglob("*"))
    work = _Work(root, sources, known, grammar, exemptions, places, own, most_s)
    data = [path for path in paths if path.parent == root / "data" and path.suffix != ".html"]
    _check_all(work, [path for path in paths if path.suffix == ".html"] + data, outcome, used)
    for path in paths:
        name = path.relative_to(root).as_posix()
        if path.suffix == ".css" and name != THEME and not _scripts.is_installed(name, path):
            printed = scan_css(path.read_text("utf-8", "replace"), grammar)
            outcome.findings += [
                found(name, f"{token!r} in a style sheet", "css", _BIND) for token in printed
            ]
    outcome.findings += unreached(outcome.links)
    made = {INDEX, THEME, *outcome.behind}
    outcome.findings += _scripts.check_files(root, made)
    outcome.findings += _check_behind(root, outcome.behind)
    outcome.findings += _check_index(root, outcome.entries)
    if not _same(root / THEME, theme_css(frozenset(outcome.tokens))):
        what = "is not what the installed theme gives for these pages"
        outcome.findings.append(found(THEME, what, "script", "Build the site again."))
    outcome.findings += [
        found(f"sources/{name}", "no page quotes this source", "source", "Remove it.")
        for name in sorted(_below(root / "sources") - outcome.quoted)
    ]
    outcome.findings += [
        found("gate/exemptions.toml", f"{item.token!r} in {item.element} of {item.page} matches nothing",
              "unused", "Remove the exemption.")
        for item in exemptions if item not in used
    ]  # fmt: skip
    return outcome


@dataclass(frozen=True)
class _Work:
    """What the pages of a site are checked with."""

    root: Path
    sources: Sources
    known: _bound.Known
    grammar: Grammar
    exemptions: list[Exemption]
    places: frozenset[str]
    own: OwnPages | None
    most_s: float

    def check(self, path: Path, until: float) -> Checked:
        """Check a page or a data file, unless this process has worked until then already."""
        name = path.relative_to(self.root).as_posix()
        outcome, used = Outcome(), set[Exemption]()
        if time.process_time() > until:
            what, fix = f"not looked at: {self.most_s:g} s of work were spent", "Audit a smaller site."
            outcome.findings.append(found(name, what, "time", fix))
            return Checked(path, outcome, used, set())
        if path.suffix != ".html":
            outcome.findings += _check_data(path, self.sources)
            return Checked(path, outcome, used, set())

        def check() -> None:
            check_page(
                name, path.read_bytes(), self.sources, self.known, self.grammar, self.exemptions, used,
                outcome, self.places,
            )  # fmt: skip
            if self.own:
                outcome.unlike |= self.own.unlike(name, outcome.said[name].outline, self.sources)

        outcome.pages = 1
        return Checked(path, outcome, used, self.sources.watched(check)[1])

    def key(self, path: Path) -> list[Any]:
        """What the check of a page depends on, beside queries and the sources it quotes."""
        name = path.relative_to(self.root).as_posix()
        return [self.sources.identity, name, file_sha256(path), sorted(self.places)]

    def now(self, fact: str) -> str:
        """The digest of a query, or of a source that ships."""
        kind, _, name = fact.partition(":")
        if kind == "query":
            return self.sources.queries[name].sha256 if name in self.sources.queries else ""
        path = self.root / "sources" / name
        return file_sha256(path) if path.is_file() else ""


@dataclass(frozen=True, slots=True)
class Checked:
    """A page that was checked: what was seen, which exemptions it used, which queries it asked."""

    path: Path
    outcome: Outcome
    used: set[Exemption]
    asked: set[str]

    @property
    def facts(self) -> list[str]:
        """What the check depended on beside the page: queries, and sources that it quotes."""
        queries = [f"query:{name}" for name in self.asked]
        return queries + [f"source:{name}" for name in self.outcome.quoted]


def _check_all(work: _Work, paths: list[Path], outcome: Outcome, used: set[Exemption]) -> None:
    """Check pages and data; a build takes those over that it found in order before, if nothing of theirs
    changed.
    """
    keep = bool(work.sources.identity)
    checked: dict[Path, Checked | None] = {
        path: KEPT.find("checked", work.key(path), work.now) if keep and path.suffix == ".html" else None
        for path in paths
    }
    for item in _in_two(work, [path for path in paths if checked[path] is None]):
        checked[item.path] = item
        if keep and item.outcome.pages and not item.outcome.findings:
            facts = {fact: work.now(fact) for fact in item.facts}
            KEPT.put("checked", work.key(item.path), item, facts)
    for path in paths:
        if seen := checked[path]:
            outcome.join(seen.outcome)
            used |= seen.used


def _in_two(work: _Work, paths: list[Path]) -> list[Checked]:
    """What was found in each file; where there are many, with the help of a second process.

    Both take the next file when they are done with one, so both are busy to the end; the second begins with
    the pages of most charts, the first with the largest of those without, so that mostly one of them draws.
    """
    waiting = deque(sorted(paths, key=lambda path: (-_charts(path), path.stat().st_size, path)))
    done = list[Checked]()
    until = time.process_time() + work.most_s
    with ExitStack() as stack:
        if sum(path.suffix == ".html" for path in paths) >= MANY_PAGES and (os.cpu_count() or 1) > 1:
            helper = stack.enter_context(Helper())
            work = dataclasses.replace(work, sources=portable(work.sources))
            # now: sources change while they are asked
            task = pickle.dumps((work, KEPT.folder))
            beside = Thread(target=_helped, args=(helper, task, waiting, done))
            beside.start()
            stack.callback(beside.join)
        _take(work, waiting, done, until)
    _take(work, waiting, done, until)  # what a second process left that died
    return done


def _charts(path: Path) -> int:
    return path.read_bytes().count(b'class="k3-spec"') if path.suffix == ".html" else 0


def _take(work: _Work, waiting: deque[Path], done: list[Checked], until: float) -> None:
    with contextlib.suppress(IndexError):  # none is left
        while True:
            path = waiting.pop()
            done.append(work.check(path, until))


def _helped(helper: Helper, task: bytes, waiting: deque[Path], done: list[Checked]) -> None:
    """Let the second process check one file after another; what it dies on waits for the first."""
    path: Path | None = None
    with contextlib.suppress(OSError, EOFError, pickle.UnpicklingError, IndexError):
        helper.send(task)
        while True:
            path = waiting.popleft()
            helper.send(pickle.dumps(path))
            done.append(helper.answer())
            path = None
    if path is not None:
        waiting.append(path)


def help_out() -> None:
    """The second process: work and then files from standard input, what was found to standard output."""
    use_utc()
    asked, answers = sys.stdin.buffer, sys.stdout.buffer
    work, drawings = pickle.load(asked)
    until = time.process_time() + work.most_s
    with contextlib.redirect_stdout(sys.stderr), ExitStack() as stack:
        if drawings:
            stack.enter_context(KEPT.open(drawings, only=DRAWING))
        stack.enter_context(contextlib.suppress(EOFError))
        while True:
            pickle.dump(work.check(pickle.load(asked), until), answers)
            answers.flush()


def check_page(
    name: str,
    data: bytes,
    sources: Sources,
    known: _bound.Known,
    grammar: Grammar,
    exemptions: list[Exemption],
    used: set[Exemption],
    outcome: Outcome,
    places: frozenset[str] = PLACES,
) -> None:
    """Check one page; what it finds, and which exemptions it used, are added to `outcome` and `used`."""
    root, problems = parse_page(data)
    kept = list(root.iter())  # a node that nobody holds is made anew whenever a check comes by
    outcome.findings += [found(name, problem, "page", "A page is plain HTML.") for problem in problems]
    page = _bound.PageCheck(name, root, sources, known, grammar)
    page.run()
    outcome.findings += page.findings
    outcome.findings += _scripts.check_page_scripts(name, root, data)
    outcome.findings += check_structure(name, root, data)
    outcome.findings += check_pairs(name, root)
    outcome.values += page.values
    outcome.entries[name] = page_entries(name, root)
    outcome.said[name] = said_on(root)
    outcome.tokens |= tokens_of(data.decode("utf-8", "replace"))
    data_file = page.behind()
    if data_file:
        outcome.behind[behind_name(name)] = data_file
    outcome.behind |= page.grids
    outcome.links[name] = links_of(name, root, data_file or "")
    outcome.seals |= page.seals
    outcome.quoted |= page.quoted
    for hit in scan_tree(root, page.bound, grammar, places):
        match = next((item for item in exemptions if _exempts(item, name, hit)), None)
        if match:
            used.add(match)
        else:
            outcome.findings.append(_unbound(name, hit))
    kept.clear()


def _exempts(item: Exemption, page: str, hit: Hit) -> bool:
    return (item.page, item.element, item.token) == (page, hit.element, hit.token)


def _unbound(page: str, hit: Hit) -> Finding:
    around = f" in {hit.around!r}" if hit.around and hit.around != hit.token else ""
    return found(f"{page} <{hit.element}>", f"{hit.token!r} has no artifact{around}", hit.rule, _BIND)


def _below(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def _check_behind(root: Path, expected: Mapping[str, str]) -> list[Finding]:
    """Data files of pages: cards, further rows and SQL as the artifacts give them."""
    what = "what stands behind the page's cards and tables is not what the artifacts say"
    return [
        found(name, what, "behind", "Build the site again from its artifacts.")
        for name, text in sorted(expected.items())
        if not _same(root / name, text)
    ]


def _same(path: Path, text: str) -> bool:
    data = text.encode()
    return path.is_file() and path.stat().st_size == len(data) and path.read_bytes() == data


def _check_index(root: Path, entries: dict[str, list[list[Any]]]) -> list[Finding]:
    """The search index against the text of the pages that were checked."""
    path = root / INDEX
    if path.is_file() and path.read_text("utf-8", "replace") == index_text(entries):
        return []
    return [found(INDEX, "is not the text of the pages", "search", "Build the site again.")]


_DATA: dict[str, Callable[[Sources, str], bytes]] = {
    ".csv": lambda sources, query: csv_of(sources, query).encode(),
    ".parquet": parquet_of,
}


def _check_data(path: Path, sources: Sources) -> Iterator[Finding]:
    """A CSV or Parquet file that a site ships, against the rows of its query."""
    query = path.stem
    made = _DATA.get(path.suffix) if query in sources.queries else None
    if made is None or path.read_bytes() != made(sources, query):
        fix = "Build the site again (Parquet: with the DuckDB that audits it)."
        yield found(f"data/{path.name}", "is not what its query returns", "data", fix)


def read_manifest(root: Path) -> dict[str, Any]:
    """`manifest.json` of a built site; empty when it is missing, not JSON, or names heads or files in another
    way than a list and a mapping of texts.
    """
    try:
        manifest = json.loads((root / "manifest.json").read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(manifest, dict):
        return {}
    heads, files = manifest.get("heads", []), manifest.get("files", {})
    if not isinstance(heads, list) or not isinstance(files, dict):
        return {}
    return manifest if all(isinstance(text, str) for text in (*heads, *files.values())) else {}
