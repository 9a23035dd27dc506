"""Bound values, tables and figures in a notebook: readable in JupyterLab, regenerated from artifacts on
the site.

from k3repro.report import show
show.value("wall-law", "c0", where={"subject": "twin:mi325x"}, label="Fixed cost of a wave:")
show.table("wall-law", caption="...")
show.figure("wall", "wall-law", caption="...", description="...")
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from k3repro.errors import MissingExtra
from k3repro.report._allowlist import load_grammar
from k3repro.report._behind import result_seals
from k3repro.report._figures import draw, load_figure, svg_of
from k3repro.report._markup import escape
from k3repro.report._notebooks import MIME
from k3repro.report._queries import load_queries
from k3repro.report._site import Site
from k3repro.report._sources import Queryable, Sources
from k3repro.report._tables import table_html
from k3repro.report._values import value_html

__all__ = ["figure", "open_sources", "table", "value"]

_STYLE = (
    "<style>.k3-nb table{border-collapse:collapse}.k3-nb td,.k3-nb th{padding:2px 10px;text-align:left}"
    ".k3-nb td.k3-number{text-align:right;font-variant-numeric:tabular-nums}.k3-nb caption{text-align:left}"
    ".k3-nb .k3-tier{font-size:85%;border:1px solid currentColor;border-radius:8px;padding:0 6px}</style>"
)


def open_sources(query: str, catalog: Queryable | None = None) -> tuple[Site, Sources]:
    """The site upward of the working directory and one of its queries over the store's catalog."""
    site = Site.find()
    if catalog is None:
        from k3repro.store import Store

        catalog = Store().catalog()
    return site, Sources(catalog, load_queries(site.queries, query), grammar=load_grammar(site.root))


def value(
    query: str,
    column: str,
    *,
    where: Mapping[str, Any] | None = None,
    format: str | None = None,
    unit: str | None = None,
    label: str = "",
    catalog: Queryable | None = None,
) -> None:
    """Show one bound value, with a label in front.

    Raises:
        InputError, GateFailed: as on a page.
    """
    _, sources = open_sources(query, catalog)
    html = value_html(sources, query, column, where=where, format=format, unit=unit)
    options = _given(column=column, where=where, format=format, unit=unit, label=label)
    _emit(sources, "value", query, options, f"<p>{escape(label)} {html}</p>")


def table(
    query: str,
    *,
    caption: str,
    where: Mapping[str, Any] | None = None,
    columns: Sequence[str] | None = None,
    catalog: Queryable | None = None,
) -> None:
    """Show the rows of a query as a bound table."""
    _, sources = open_sources(query, catalog)
    html = table_html(sources, query, where=where, columns=columns)
    html = html.replace("{caption}", f"<caption>{escape(caption)}</caption>", 1)
    options = _given(caption=caption, where=where, columns=list(columns) if columns else None)
    _emit(sources, "table", query, options, html)


def figure(
    name: str,
    query: str,
    *,
    caption: str = "",
    description: str = "",
    where: Mapping[str, Any] | None = None,
    catalog: Queryable | None = None,
) -> None:
    """Show `site/figures/NAME.py` over the rows of a query."""
    site, sources = open_sources(query, catalog)
    spec = draw(sources, name, query, load_figure(site.figures, name), where, description)
    options = _given(caption=caption, description=description, where=where)
    _emit(sources, "figure", query, options, f"{svg_of(spec)}<p>{escape(caption)}</p>", name=name)


def _given(**options: Any) -> dict[str, Any]:
    return {key: item for key, item in options.items() if item not in (None, "")}


def _emit(sources: Sources, kind: str, query: str, options: dict[str, Any], html: str, **extra: str) -> None:
    try:
        from IPython.display import display
    except ImportError:
        raise MissingExtra("show needs a notebook", fix="pip install 'k3repro[lab]'") from None
    bound = {
        "kind": kind,
        "query": query,
        "options": options,
        "artifacts": sorted(result_seals(sources, query)),
        **extra,
    }
    bundle = {
        MIME: bound,
        "text/html": f'{_STYLE}<div class="k3-nb">{html}</div>',
        "text/plain": f"<{kind} {query}>",
    }
    display(bundle, raw=True)
