# ruff: noqa: E501
"""Every page of a built site in one browser: what it says, asks for, weighs, and what axe-core finds."""

from __future__ import annotations

import json
import os
import re
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from k3repro.errors import MachineError
from k3repro.report._engine import fetch_package

PHONE, DESK = (390, 844), (1280, 900)
# As the theme writes them on the body when a reader switches.
SCHEMES = {"light": "default", "dark": "slate"}
VIEWS = {
    "light": ("light", DESK),
    "dark": ("dark", DESK),
    "phone": ("light", PHONE),
    "dark phone": ("dark", PHONE),
}
# Axe's own list of what WCAG 2.2 A and AA ask for; landmarks of one name are looked for besides.
AXE_TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
READY = """() => [...document.querySelectorAll('figure.k3-figure')].every((figure) => figure.querySelector('.vega-embed svg'))
  && [...document.querySelectorAll('form.k3-sizing section output')].every((output) => output.textContent || output.closest('[hidden]'))"""
# Words and marks of a live chart that its own edge cuts; half a pixel is a rounding.
CUT = """() => [...document.querySelectorAll('.vega-embed svg')].filter((svg) => svg.getBoundingClientRect().width).flatMap((svg) => {
  const edge = svg.getBoundingClientRect();
  return [...svg.querySelectorAll('text:not([opacity="0"]), .mark-symbol path')].filter((item) => {
    const box = item.getBoundingClientRect();
    return box.width && (box.right > edge.right + 1.5 || box.left < edge.left - 1.5 || box.top < edge.top - 1.5 || box.bottom > edge.bottom + 1.5);
  }).slice(0, 2).map((item) => `${(svg.closest('figure') || {}).id}: ${item.textContent || item.getAttribute('aria-label')}`);
})"""
OVERFLOW = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
AXE = """async (tags) => (await axe.run(document, {runOnly: {type: 'tag', values: tags}, rules: {'landmark-unique': {enabled: true}}, resultTypes: ['violations'], elementRef: false, preload: false}))
  .violations.flatMap((rule) => rule.nodes.slice(0, 3).map((node) => `${rule.id}: ${node.target.join(' ')} ${node.failureSummary.split('\\n')[1] || ''}`))"""


@dataclass
class Visit:
    """What one view of one page showed."""

    page: str
    view: str
    problems: list[str] = field(default_factory=list)
    charts_ms: float = 0.0
    unasked: int = 0  # bytes that the page loaded before anybody touched it


@dataclass(frozen=True)
class Weight:
    """Uncompressed bytes of a page. The search index and the SQL engine come only to who asks, and count nowhere."""

    own: int  # HTML, and the grid of a form
    shared: int  # theme, styles and scripts, the same files for every page
    asked: int  # cards and further rows; the charts' engine where there is a chart

    @property
    def unasked(self) -> int:
        return self.own + self.shared


def axe_source() -> str:
    """axe-core's script, pinned.

    Raises:
        MachineError: it is not cached and npm cannot fetch it.
    """
    pin = json.loads(Path(__file__).with_name("axe.json").read_text("utf-8"))
    with tarfile.open(fetch_package(pin["name"], pin["version"], pin["integrity"])) as tar:
        handle = tar.extractfile("package/axe.min.js")
        if handle is None:
            raise MachineError("axe-core holds no axe.min.js")
        return handle.read().decode()


def outside(url: str) -> bool:
    return not url.startswith(("file:", "data:", "blob:"))


def tour(browser: Any, root: Path, pages: list[str], views: list[str], axe: str = "") -> Iterator[Visit]:
    """Load each page once, then see it in every view: scheme and width change as a reader would change them."""
    context = browser.new_context(
        viewport={"width": DESK[0], "height": DESK[1]}, reduced_motion="reduce", bypass_csp=bool(axe)
    )
    page = context.new_page()
    heard: list[str] = []
    loaded: set[str] = set()
    page.on("request", lambda request: loaded.add(request.url))
    page.on("console", lambda message: heard.append(f"says {message.type}: {message.text}"))
    page.on("pageerror", lambda error: heard.append(f"fails: {error}"))
    page.on("request", lambda request: heard.append(f"asks {request.url}") if outside(request.url) else None)
    for name in pages:
        page.set_viewport_size({"width": DESK[0], "height": DESK[1]})
        loaded.clear()
        page.goto((root / name).as_uri(), wait_until="load")
        unasked = sum(path.stat().st_size for path in map(_file, loaded) if path and path.is_file())
        if axe:
            page.evaluate(axe)
        for view in views:
            visit = Visit(name, view, unasked=unasked)
            scheme, (width, height) = VIEWS[view]
            page.set_viewport_size({"width": width, "height": height})
            page.evaluate(
                "(scheme) => document.body.setAttribute('data-md-color-scheme', scheme)", SCHEMES[scheme]
            )
            page.evaluate("globalThis.k3Figures && globalThis.k3Figures.drawAll().then(() => null)")
            page.evaluate("globalThis.k3Forms && globalThis.k3Forms.wakeAll().then(() => null)")
            try:
                page.wait_for_function(READY, timeout=600_000)
            except Exception:
                visit.problems.append("not every chart was drawn")
            visit.charts_ms = page.evaluate("performance.now()")
            if not page.evaluate(OVERFLOW):
                visit.problems.append("overflows sideways")
            visit.problems += [f"a chart cuts off {line}" for line in page.evaluate(CUT)]
            if axe:
                visit.problems += [f"axe {line}" for line in page.evaluate(AXE, AXE_TAGS)]
            visit.problems += heard
            heard.clear()
            yield visit
    context.close()


def pages_of(root: Path) -> list[str]:
    return [path.relative_to(root).as_posix() for path in sorted(root.rglob("*.html"))]


def _file(url: str) -> Path | None:
    """The file that a request asked for."""
    return Path(unquote(urlsplit(url).path)) if url.startswith("file:") else None


def _sizes(root: Path, names: Iterable[str]) -> int:
    return sum((root / name).stat().st_size for name in names if (root / name).is_file())


def weight(root: Path, name: str) -> Weight:
    """What a page loads, by who must ask for it."""
    html = (root / name).read_text("utf-8")
    base = (root / name).parent
    linked = re.findall(r'(?:src|href)="([^"#?:]+\.(?:js|css|svg))"', html)
    shared = {os.path.relpath(base / source, root) for source in linked} | {"assets/k3/k3-search.js"}
    grids = {f"behind/grid/{query}.js" for query in re.findall(r'<form[^>]* data-query="([^"]+)"', html)}
    asked = {f"behind/{name.removesuffix('.html')}.js"}
    if grids:
        shared.add("assets/k3/k3-sizing.js")
    if "k3-spec" in html:
        shared.add("assets/k3/k3-figures.js")
        asked.add("assets/k3/vega.js")
    if "k3-console" in html:
        shared.add("assets/k3/k3-console.js")
    return Weight(_sizes(root, {name, *grids}), _sizes(root, shared), _sizes(root, asked))
