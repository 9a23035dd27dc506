"""Page templates into plain Markdown: Jinja2 with the few functions that bring numbers onto a page."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from urllib.parse import quote

import jinja2

from k3repro.errors import GateFailed, InputError, K3Error
from k3repro.report._behind import behind_name, behind_text, queries_in, result_seals
from k3repro.report._csv import rows_csv
from k3repro.report._evidence import confirmations
from k3repro.report._figures import Drawer, empty_html, figure_columns, figure_html, load_figure
from k3repro.report._glossary import glossary_html, load_glossary
from k3repro.report._journey import steps_html
from k3repro.report._markup import attributes, escape, printable, sha256
from k3repro.report._site import Site
from k3repro.report._sizing import grid_name, grid_text, sizing_html
from k3repro.report._sources import Sources
from k3repro.report._tables import block_id, citation_badges, further_rows, table_html
from k3repro.report._tree import further_nodes, tree_html
from k3repro.report._values import badge, relation_badge, value_html

__all__ = ["FILE", "Page", "Shipped", "folded", "render_page"]

FILE = "The file, as it stands in the repository"  # no name: many hold digits that no artifact gives
_ID = re.compile(r' id="([^"]+)"')
Where = Mapping[str, Any] | None


@dataclass
class Shipped:
    """What the pages of a build refer to, and so must travel with the site."""

    queries: set[str] = field(default_factory=set)
    seals: set[str] = field(default_factory=set)
    sources: dict[str, str] = field(default_factory=dict)  # path below sources/ -> text
    behind: dict[str, str] = field(default_factory=dict)  # data files of pages by their path

    def join(self, other: Shipped) -> None:
        """Add what another page refers to."""
        self.queries |= other.queries
        self.seals |= other.seals
        self.sources |= other.sources
        self.behind |= other.behind


@dataclass
class Page:
    """One page while it is rendered: its place, and what it may call."""

    name: str  # "about/limits.md"
    site: Site
    sources: Sources
    shipped: Shipped
    further: dict[str, list[str]] = field(default_factory=dict)  # rows beyond a screen, by their table's id
    seen: dict[str, int] = field(default_factory=dict)
    template: str = ""  # the file it was made from, where that is another
    row: Mapping[str, Any] | None = None  # the row of `each` that it is about
    read: set[str] = field(default_factory=set)  # figure:NAME, file:PATH, page:NAME that it looked at

    @property
    def base(self) -> str:
        """How this page reaches the root of the site."""
        return "../" * self.name.count("/")

    def value(self, query: str, column: str, **options: Any) -> str:
        """`{{ value("wall-law", "c0", where={...}, format=".2f") }}`"""
        return self._unique(self._use(query, lambda: value_html(self.sources, query, column, **options)))

    def table(
        self,
        query: str,
        caption: str = "",
        where: Where = None,
        columns: Sequence[str] | None = None,
    ) -> str:
        """`{{ table("wall-law", caption="...") }}`, alone on its line."""
        if not caption:
            raise InputError(
                "a table without a caption", where=f"table {query}", fix='Say what it shows: caption="..."'
            )

        def build() -> str:
            if not self.sources.result(query).select(where):
                return empty_html(self.sources.result(query).query.empty, caption)
            table = self._table(query, where, columns).replace(
                "{caption}", f'<caption><span class="k3-caption">{caption}</span></caption>\n', 1
            )
            ident = block_id("t", query, where, list(columns or ()))
            links = self.downloads(query)
            return f'<div class="k3-table" id="{ident}"><div class="k3-scroll">{table}</div>{links}</div>'

        built = self._use(query, build)
        return self._block(built, self._rest(further_rows, query, where, columns))

    def tree(
        self,
        query: str,
        where: Where = None,
        columns: Sequence[str] | None = None,
        id: str = "",
    ) -> str:
        """`{{ tree("claims-tree", where={...}, id="t3.c4.out") }}`, alone on its line.

        id: the permanent anchor; default made from the key, as for tables.
        """

        def build() -> str:
            ident = id or block_id("tree", query, where, list(columns or ()))
            drawn = self._tree(query, where, columns)
            link = f'<a class="k3-permalink" href="#{escape(quote(ident))}" title="Link to this">#</a>'
            return f'<div class="k3-block"{attributes({"id": ident})}>{link}{drawn}</div>'

        built = self._use(query, build)
        return self._block(built, self._rest(further_nodes, query, where, columns))

    def rows(self, query: str, where: Where = None) -> list[dict[str, Any]]:
        """The rows of a query, to loop over; a number of theirs still has to be shown by a call."""
        found: list[dict[str, Any]] = self._use(query, lambda: self.sources.result(query).select(where))
        return found

    def figure(
        self,
        name: str,
        query: str,
        caption: str = "",
        description: str = "",
        where: Where = None,
        switches: Sequence[str] = (),
    ) -> str:
        """`{{ figure("wall", "wall-law", caption="...", description="...") }}`, alone on its line.

        switches: what a reader may turn, `filter:COLUMN`, `facet:COLUMN`, `log:x`, `log:y`.
        """

        def build() -> str:
            return self._drawn(
                name, query, self.drawer(name),
                caption=caption, description=description, where=where, switches=switches,
                data_link=self.downloads(query), base=self.base,
            )  # fmt: skip

        return self._figure(query, where, self._use(query, build))

    def journey(
        self,
        name: str,
        query: str,
        caption: str = "",
        description: str = "",
        where: Where = None,
    ) -> str:
        """`{{ journey("journey", "journey-steps", caption="...", description="...") }}`: a figure whose rows
        are steps (text columns act, stage, caption), played one by one.
        """

        def build() -> str:
            return self._drawn(
                name, query, self.drawer(name),
                caption=caption, description=description, where=where, data_link=self.downloads(query),
                base=self.base, steps=self._steps(query, where),
            )  # fmt: skip

        return self._figure(query, where, self._use(query, build))

    def drawer(self, name: str) -> Drawer:
        """The function of a figure of the site."""
        self.read.add(f"figure:{name}")
        return load_figure(self.site.figures, name)

    def _figure(self, query: str, where: Where, built: str) -> str:
        """A figure, and the rows of its table beyond the first."""
        columns = figure_columns(self.sources.result(query), where)
        return self._block(built, self._rest(further_rows, query, where, columns) if columns else [])

    def sizing(self, query: str) -> str:
        """`{{ sizing("sizing-grid") }}`, alone on its line: a form answered live."""
        form = self._use(query, lambda: sizing_html(self.sources, query))
        if grid := grid_text(self.sources, query):
            self.shipped.behind[grid_name(query)] = grid
        return self._block(form)

    def finding(
        self,
        query: str,
        title: str,
        says: Mapping[str, str],
        why: str,
        link: str,
        more: str,
        figure: str,
        description: str,
    ) -> str:
        """A card of the front page: two or three values, a small drawing, why it matters, where it leads.

        The query returns the rows that are drawn and a column `holds`: what makes the sentence true.

        Raises:
            GateFailed: the artifacts do not bear the finding out any more.
        """
        rows = self._use(query, lambda: self.sources.result(query).rows)
        if not rows or not all(row.get("holds") is True for row in rows):
            raise GateFailed(
                f"the finding no longer holds: {title}",
                where=f"finding {query}",
                fix="Its artifacts say otherwise now: rewrite the card, or show another finding.",
            )
        drawer = self.drawer(figure)
        drawn = self._drawn(figure, query, drawer, description=description, small=True)
        seal = self.sources.result(query).query.column("seal")
        cites = [self.sources.cite(row, seal, query) for row in rows]
        said = "".join(f"<div><dt>{name}</dt><dd>{item}</dd></div>" for name, item in says.items())
        return (
            f'<div class="k3-finding" id="{query}"><h3>{title}</h3><dl>{said}</dl>{self._unique(drawn)}'
            f"<p>{why}</p>"
            f"<p>{citation_badges(self.sources, cites)} "
            f'<a href="{escape(self.base + link)}">{more}</a></p></div>'
        )

    def relation(self, query: str, where: Where = None) -> str:
        """The relation of a pair that stands in a sentence."""
        rows = self._use(query, lambda: self.sources.result(query).select(where))
        relations = {row.get("relation") for row in rows}
        if len(relations) != 1 or None in relations:
            raise InputError(
                "not one relation", where=f"relation {query}", fix="Narrow `where` to rows of one relation."
            )
        return relation_badge(str(relations.pop()), query, where)

    def source(self, path: str, language: str = "") -> str:
        """A file of the repository, verbatim and folded, in an element whose bytes are hashed against it."""
        file = (self.site.root.parent / path).resolve()
        if not file.is_relative_to(self.site.root.parent.resolve()) or not file.is_file():
            raise InputError(
                f"no file {path!r} in the repository", where=self.name, fix="Name it from its root."
            )
        self.read.add(f"file:{path}")
        code = self.code(path, file.read_text("utf-8"), language or file.suffix[1:])
        return self._block(folded(FILE, code))

    def code(self, path: str, text: str, language: str = "") -> str:
        """`text` as source code, shipped below `sources/` so that audit can compare."""
        text = printable(text)
        self.shipped.sources[path] = text
        pairs: dict[str, object] = {
            "data-source": path,
            "data-sha256": sha256(text),
            "data-language": language,
        }
        return f'<pre class="k3-source"><code{attributes(pairs)}>{escape(text)}</code></pre>'

    def sql(self, query: str) -> str:
        """The SQL of a named query, folded."""
        text = self._use(query, lambda: self.sources.result(query).query.sql)
        code = self.code(f"queries/{query}.sql", text, "sql")
        return self._block(folded("SQL", code))

    def exists(self, page: str) -> bool:
        """Whether a page of that name has a template."""
        self.read.add(f"page:{page}")
        return page in self.site.templates()

    def withdrawn(self) -> str:
        """The artifacts that were withdrawn, struck through, with the reasons that the ledger gives."""
        lines = "".join(self.sources.withdrawn.values())
        return self._block(f"<ul>{lines}</ul>") if lines else "Nothing was withdrawn so far."

    def glossary(self) -> str:
        """Every term of `site/glossary.toml`."""
        return self._block(glossary_html(load_glossary(self.site.root, self.sources.grammar)))

    def downloads(self, query: str) -> str:
        """Links to the rows and to the SQL of a query."""
        return (
            f'<p class="k3-source-links"><span>All rows:</span>'
            f'<a href="{self.base}data/{query}.csv" download>CSV</a>'
            f'<a href="{self.base}data/{query}.parquet" download>Parquet</a>'
            f'<a href="{self.base}queries/{query}.sql">SQL</a></p>'
        )

    def finish(self, text: str) -> str:
        """The text of the page, whose data file joins what ships."""
        if data := behind_text(self.sources, self.base, queries_in(text), self.further):
            self.shipped.behind[behind_name(self.name)] = data
        return text.rstrip() + "\n"

    # What makes the parts: `_outline` takes placeholders instead.

    def _table(self, query: str, where: Where, columns: Sequence[str] | None) -> str:
        return table_html(self.sources, query, where=where, columns=columns, base=self.base)

    def _tree(self, query: str, where: Where, columns: Sequence[str] | None) -> str:
        return tree_html(self.sources, query, where=where, columns=columns, base=self.base)

    def _steps(self, query: str, where: Where) -> str:
        return steps_html(self.sources, query, where=where, base=self.base)

    def _drawn(self, name: str, query: str, drawer: Drawer, **options: Any) -> str:
        return figure_html(self.sources, name, query, drawer, **options)

    def _rest(
        self, further: Callable[..., list[str]], query: str, where: Where, columns: Sequence[str] | None
    ) -> list[str]:
        return further(self.sources, query, where=where, columns=columns, base=self.base)

    def _use(self, query: str, action: Callable[[], Any]) -> Any:
        made = action()
        self.shipped.queries.add(query)
        seals = result_seals(self.sources, query)
        self.shipped.seals.update(seals)
        for seal in seals & self.sources.vouched.keys():
            self.shipped.seals.update(confirmations(seal, self.sources.artifacts))
        return made

    def _unique(self, element: str) -> str:
        """A second element of the same key gets a numbered id, the first keeps the permanent one."""
        match = _ID.search(element)
        if match is None:
            return element
        count = self.seen[match.group(1)] = self.seen.get(match.group(1), 0) + 1
        return (
            element if count == 1 else element.replace(match.group(0), f' id="{match.group(1)}-{count}"', 1)
        )

    def _block(self, element: str, further: list[str] | None = None) -> str:
        element = self._unique(element)
        if further and (match := _ID.search(element)):
            self.further[html.unescape(match.group(1))] = further
        return f"\n\n{element}\n\n"


def folded(summary: str, inner: str) -> str:
    """What most readers pass over, behind one line."""
    return f'<details class="k3-rows"><summary>{escape(summary)}</summary>{inner}</details>'


def render_page(page: Page, template: str) -> str:
    """The Markdown of one page.

    Raises:
        K3Error: with the page and line that asked for what cannot be given.
    """
    names = ("value", "table", "tree", "rows", "figure", "journey", "relation", "source", "sql", "exists",
             "withdrawn", "sizing", "glossary", "finding")  # fmt: skip
    source = page.template or f"site/pages/{page.name}"
    functions: dict[str, Any] = {name: getattr(page, name) for name in names}
    try:
        text = _compiled(template).render(**functions, tier=badge, row=page.row or {})
    except jinja2.TemplateError as error:
        line = getattr(error, "lineno", None)
        raise InputError(str(error), where=f"{source}{f':{line}' if line else ''}") from None
    except TypeError as error:
        raise InputError(str(error), where=_place(source, error), fix="See docs/report.md.") from None
    except K3Error as error:
        error.where = f"{_place(source, error)} ({error.where})"
        raise
    return page.finish(text)


@lru_cache(maxsize=256)
def _compiled(template: str) -> jinja2.Template:
    """A template, compiled once however many pages it makes."""
    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined, autoescape=False, keep_trailing_newline=True
    )
    return environment.from_string(template)


def _place(source: str, error: BaseException) -> str:
    """`FILE:LINE`, the line from the frame that Jinja maps to the template."""
    line, trace = 0, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "<template>":
            line = trace.tb_lineno
        trace = trace.tb_next
    return f"{source}:{line}" if line else source


def csv_of(sources: Sources, query: str) -> str:
    """The rows of a query as CSV, units in the header."""
    return sources.kept("csv", sources.queries[query].sql, lambda: rows_csv(sources.result(query)))
