"""Figures: a Vega-Lite specification over the rows of a query, a static drawing, and the same rows as a
table.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import lru_cache
from importlib import metadata, resources
from pathlib import Path
from typing import Any

from k3repro.errors import GateFailed, InputError, MissingExtra
from k3repro.quick_imports import no_iri_grammar
from k3repro.report._dress import dress
from k3repro.report._kept import DRAWING, KEPT
from k3repro.report._markup import attributes, canonical_json, escape, script_json, sha256
from k3repro.report._site import study_files
from k3repro.report._sources import Result, Sources, rows_digest
from k3repro.report._spec import bind_data, refuse_nan
from k3repro.report._switches import switches_of
from k3repro.report._tables import block_id, table_html, tier_badges

__all__ = [
    "Drawer",
    "draw",
    "figure_columns",
    "figure_file",
    "figure_html",
    "load_figure",
    "slim",
    "svg_of",
    "theme",
]

Drawer = Callable[[list[dict[str, Any]]], Any]
VEGA_LITE = "v6.4"
_SLIM = re.compile(
    r' (?:(?:aria-label|aria-roledescription|aria-hidden|role|pointer-events)="[^"]*"|opacity="1"|x2="0"'
    r'|y2="0"|font-family="system-ui, sans-serif"|stroke-dasharray="1,0"|transform="translate\(0,0\)")'
)
_FONT = "system-ui, sans-serif"  # of the theme; said once, on the drawing
# Clips and gradients are numbered on from drawing to drawing, so each drawing numbers its own.
_IDS = re.compile(r'( id="|url\(#)((?:clip|gradient)[^")]*)')
_UNPAINTED = re.compile(r'<path class="(?:background|foreground)" d="[^"]*"(?: display="none")?/>')


@lru_cache(maxsize=1)
def theme() -> dict[str, Any]:
    """The chart configuration that the static drawing and the live chart share."""
    text = resources.files("k3repro.report").joinpath("assets/vega-theme.json").read_text("utf-8")
    config: dict[str, Any] = json.loads(text)
    return config


def load_figure(folder: Path, name: str) -> Drawer:
    """The `figure(rows)` function of `site/figures/NAME.py`.

    Raises:
        InputError: no such file, or it defines no `figure`.
    """
    files = study_files(folder, ".py")
    path = figure_file(folder, name)
    spec = importlib.util.spec_from_file_location(f"k3_figure_{name.replace('-', '_')}", path)
    if not path.exists() or spec is None or spec.loader is None:
        known = ", ".join(files) or "none"
        raise InputError(f"no figure is named {name!r}", where="site/figures", fix=f"There are: {known}.")
    module = importlib.util.module_from_spec(spec)
    with no_iri_grammar():
        spec.loader.exec_module(module)
    if not callable(getattr(module, "figure", None)):
        raise InputError(
            "no function figure(rows)", where=f"site/figures/{path.name}", fix="Define figure(rows)."
        )
    drawer: Drawer = module.figure
    return drawer


def figure_file(folder: Path, name: str) -> Path:
    """Where a figure's function stands, whether or not it does."""
    files = study_files(folder, ".py")
    return files.get(name.replace("-", "_"), files.get(name, folder / f"{name}.py"))


def draw(
    sources: Sources,
    name: str,
    query: str,
    drawer: Drawer,
    where: Mapping[str, Any] | None,
    description: str,
    switches: Sequence[str] = (),
) -> dict[str, Any]:
    """The finished specification: bound data, description, provenance in `usermeta`.

    Raises:
        InputError: NaN, too many rows, no description. GateFailed: data of its own.
    """
    place = f"figure {name}"
    result = sources.result(query)
    rows = chart_rows(result, where)
    with _checked_once():
        chart = drawer([dict(row) for row in rows])
    spec: dict[str, Any] = chart if isinstance(chart, dict) else chart.to_dict()
    refuse_nan(spec, place)
    spec.pop("config", None)
    dress(spec, result.query, rows)
    spec = bind_data(spec, rows, place)
    spec["description"] = description or spec.get("description", "")
    if not spec["description"]:
        raise InputError(
            "a chart without a description", where=place, fix="Say what it shows: description=..."
        )
    spec["usermeta"] = {
        "name": name,
        "query": query,
        "where": dict(where or {}),
        "sql": result.query.sha256,
        "artifacts": cited_seals(sources, result, where, place),
        "data": rows_digest(spec["datasets"]["rows"]),
    }
    if switches:
        spec["usermeta"]["switches"] = switches_of(spec, result.query, switches, place)
    return spec


@contextmanager
def _checked_once() -> Iterator[None]:
    """Altair checks each part as it is made and then the chart that holds them: the chart is enough."""
    altair = sys.modules.get("altair.utils.schemapi")
    with altair.debug_mode(False) if altair else nullcontext():
        yield


def chart_rows(result: Result, where: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """The rows a chart draws: the query's without seals (they stand in `usermeta`)."""
    keep = figure_columns(result, where)
    rows = [{name: row[name] for name in keep} for row in result.select(where)]
    for row in rows:
        if any(isinstance(value, int) and abs(value) > 2**53 for value in row.values()):
            raise InputError(
                "an integer beyond 2^53 would be rounded by the browser",
                where=result.query.name,
                fix="Cast it in SQL.",
            )
    return rows


def figure_columns(result: Result, where: Mapping[str, Any] | None) -> list[str]:
    """The columns of the table under a figure: all that a chart may draw; none where there is no row."""
    return [name for name in result.columns if "seal" not in name.split("_")] if result.select(where) else []


def cited_seals(sources: Sources, result: Result, where: Mapping[str, Any] | None, place: str) -> list[str]:
    """Every artifact the rows cite, sorted."""
    seals: set[str] = set()
    for row in result.select(where):
        for name in row:
            if "seal" in name.split("_") and row[name]:
                seals.update(sources.cite(row, result.query.column(name), place).seals)
                seals.update(row[name] if isinstance(row[name], list) else [row[name]])
    return sorted(seals)


def use_utc() -> None:
    """Temporal axes are drawn in the zone of the process: make that UTC, before Vega starts."""
    os.environ["TZ"] = "UTC"
    time.tzset()


def svg_of(spec: dict[str, Any]) -> str:
    """The static drawing of a specification: same bytes for the same specification, no request to anywhere.

    Raises:
        MissingExtra: vl-convert is not installed. GateFailed: the specification does not compile.
    """
    try:
        import vl_convert
    except ImportError:
        raise MissingExtra("charts need vl-convert", fix="pip install 'k3repro[site]'") from None
    drawn = {**spec, "config": theme()}

    def make() -> str:
        use_utc()
        try:
            svg = slim(vl_convert.vegalite_to_svg(drawn, vl_version=VEGA_LITE, allowed_base_urls=[]))
            said = {"role": "img", "aria-label": spec["description"], "font-family": _FONT}
            svg = own_ids(svg, sha256(canonical_json(drawn))[:8])
            svg = svg.replace("<svg ", f"<svg{attributes(said)} ", 1)
        except ValueError as error:
            first = str(error).splitlines()[0]
            raise GateFailed(f"the chart does not compile: {first}", where="figure") from None
        return svg

    version = [_SLIM.pattern, _IDS.pattern, "by order", VEGA_LITE, metadata.version("vl-convert-python")]
    return KEPT.get(DRAWING, [*version, drawn], make)


def own_ids(svg: str, mark: str) -> str:
    """The drawing with clips and gradients numbered as they appear in it, whatever was drawn before."""
    names: dict[str, str] = {}

    def named(match: re.Match[str]) -> str:
        name = names.setdefault(match.group(2), f"{mark}-{match.group(2).rstrip('0123456789')}{len(names)}")
        return match.group(1) + name

    return _IDS.sub(named, svg)


def slim(svg: str) -> str:
    """The drawing without what changes no pixel: it is a picture, whose rows and description stand beside it.

    The live chart, which replaces it, keeps the labels of its marks.
    """
    return _UNPAINTED.sub("", _SLIM.sub("", svg))


def figure_html(
    sources: Sources,
    name: str,
    query: str,
    drawer: Drawer,
    *,
    caption: str = "",
    description: str = "",
    where: Mapping[str, Any] | None = None,
    switches: Sequence[str] = (),
    steps: str = "",
    data_link: str = "",
    base: str = "",
    small: bool = False,
    picture: Callable[[dict[str, Any]], str] | None = None,
    table: Callable[..., str] = table_html,
) -> str:
    """`<figure>`: static drawing, specification for the live chart, caption, and the rows as a table.

    steps: the list of a journey, which stands between drawing and caption.
    description: how to read it, in words; stands under the drawing, and for those who cannot see it.
    small: the drawing alone; its rows stand on the page that a card leads to.
    picture, table: what draws the specification and its rows; default `svg_of` and `table_html`.
    """
    result = sources.result(query)
    if not result.select(where):
        return empty_html(result.query.empty, caption)
    spec = draw(sources, name, query, drawer, where, description, switches)
    ident = block_id("f", query, where, name)
    drawing = (
        f'<div class="k3-chart"><div class="k3-static">{one_line((picture or svg_of)(spec))}</div></div>\n'
        f'<script type="application/json" class="k3-spec">{script_json(spec)}</script>\n'
    )
    if small:
        mini: dict[str, object] = {"class": "k3-figure k3-mini", "id": ident}
        return f"<figure{attributes(mini | {'data-query': query, 'data-figure': name})}>\n{drawing}</figure>"
    columns = figure_columns(result, where)
    rows = table(sources, query, where=where, columns=columns, base=base).replace("{caption}", "")
    reading = f'<span class="k3-reading">{escape(spec["description"])}</span>'
    kind = "k3-figure k3-journey" if steps else "k3-figure"
    pairs: dict[str, object] = {"class": kind, "id": ident, "data-query": query, "data-figure": name}
    return (
        f"<figure{attributes(pairs)}>\n{drawing}"
        f"{steps}<figcaption>{caption} {tier_badges(sources, spec['usermeta']['artifacts'])} {reading}"
        f"</figcaption>\n"
        f'<details class="k3-rows"><summary>The rows of this figure</summary>\n'
        f'<div class="k3-scroll">{rows}</div>{data_link}</details>\n</figure>'
    )


def one_line(svg: str) -> str:
    """SVG inert for Markdown: no newlines, and none of the characters it would pair up."""
    return " ".join(svg.split("\n"))


def empty_html(reason: str, caption: str) -> str:
    """What stands where a query is declared to be empty."""
    return f'<p class="k3-empty">{caption} <em>No rows: {escape(reason)}.</em></p>'
