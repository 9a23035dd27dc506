# ruff: noqa: E501
"""Every page of a built site in one browser: what it says, asks for, weighs, and what axe-core finds."""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

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
# Axe's own list of what WCAG 2.2 A and AA ask for.
AXE_TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
READY = """() => [...document.querySelectorAll('figure.k3-figure')].every((figure) => figure.querySelector('.vega-embed svg'))
  && [...document.querySelectorAll('form.k3-sizing section output')].every((output) => output.textContent || output.closest('[hidden]'))"""
OVERFLOW = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
AXE = """async (tags) => (await axe.run(document, {runOnly: {type: 'tag', values: tags}, resultTypes: ['violations'], elementRef: false, preload: false}))
  .violations.flatMap((rule) => rule.nodes.slice(0, 3).map((node) => `${rule.id}: ${node.target.join(' ')} ${node.failureSummary.split('\\n')[1] || ''}`))"""


@dataclass
class Visit:
    """What one view of one page showed."""

    page: str
    view: str
    problems: list[str] = field(default_factory=list)
    charts_ms: float = 0.0


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
    page.on("console", lambda message: heard.append(f"says {message.type}: {message.text}"))
    page.on("pageerror", lambda error: heard.append(f"fails: {error}"))
    page.on("request", lambda request: heard.append(f"asks {request.url}") if outside(request.url) else None)
    for name in pages:
        page.set_viewport_size({"width": DESK[0], "height": DESK[1]})
        page.goto((root / name).as_uri(), wait_until="load")
        if axe:
            page.evaluate(axe)
        for view in views:
            visit = Visit(name, view)
            scheme, (width, height) = VIEWS[view]
            page.set_viewport_size({"width": width, "height": height})
            page.evaluate(
                "(scheme) => document.body.setAttribute('data-md-color-scheme', scheme)", SCHEMES[scheme]
            )
            page.evaluate("globalThis.k3Figures && globalThis.k3Figures.drawAll().then(() => null)")
            try:
                page.wait_for_function(READY, timeout=30_000)
            except Exception:
                visit.problems.append("not every chart was drawn")
            visit.charts_ms = page.evaluate("performance.now()")
            if not page.evaluate(OVERFLOW):
                visit.problems.append("overflows sideways")
            if axe:
                visit.problems += [f"axe {line}" for line in page.evaluate(AXE, AXE_TAGS)]
            visit.problems += heard
            heard.clear()
            yield visit
    context.close()


def pages_of(root: Path) -> list[str]:
    return [path.relative_to(root).as_posix() for path in sorted(root.rglob("*.html"))]


def weight(root: Path, name: str) -> int:
    """Bytes of a page and of all that it loads, the search index and the SQL engine apart."""
    html = (root / name).read_text("utf-8")
    base = (root / name).parent
    files = {
        (base / source).resolve() for source in re.findall(r'(?:src|href)="([^"#?:]+\.(?:js|css|svg))"', html)
    }
    loaded = {"k3-search.js"} | ({"k3-figures.js", "vega.js"} if "k3-spec" in html else set())
    loaded |= {"k3-sizing.js"} if "k3-sizing" in html else set()
    files |= {root / "assets" / "k3" / item for item in loaded}
    return len(html.encode()) + sum(path.stat().st_size for path in files if path.is_file())
