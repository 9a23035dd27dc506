"""The site from preserved artifacts: building, skipping and auditing, beside mkdocs alone on the same pages.

The peer is a bare `mkdocs build` of the generated Markdown in a process of its own: what the theme costs
without values, gate, charts or artifacts. Repeats are interleaved, medians are printed.

    python benchmarks/bench_site.py [--repeats 3] [--site DIR] [--artifacts DIR]
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from _figures import figure
from tests.report._visits import pages_of, tour, weight

from k3repro.report import Site, audit_site, build_site
from k3repro.report._mkdocs import run_mkdocs
from k3repro.store import Store

INTERACTIVE_MS = 2500  # at a quarter of the processor
HEAVY = 1_000_000  # bytes that a page loads unasked


def timed(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def weights(root: Path) -> None:
    """Print what pages weigh: HTML alone, and with all that they load unasked."""
    weighed = {name: weight(root, name) for name in pages_of(root)}
    sizes = sorted(((item.unasked, name) for name, item in weighed.items()), reverse=True)
    own = statistics.median(item.own for item in weighed.values())
    middle = sizes[len(sizes) // 2][0]
    print(f"median page, KB: {own / 1e3:.0f} of its own, {middle / 1e3:.0f} with shared files")
    print(
        f"heaviest pages, MB (limit {HEAVY / 1e6}): "
        + ", ".join(f"{name} {size / 1e6:.2f}" for size, name in sizes[:3])
    )


def charts(root: Path) -> None:
    """Print how long after the start of loading every chart of a page is drawn, from disk, in Chromium."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        print("charts: NOT RUN, playwright is missing")
        return
    pages = [name for name in pages_of(root) if "k3-spec" in (root / name).read_text("utf-8")]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        times = sorted(visit.charts_ms for visit in tour(browser, root, pages, ["light"]))
        browser.close()
    middle = statistics.median(times)
    print(f"live charts drawn after {middle:.0f} ms (median of {len(times)} pages), at most {times[-1]:.0f}")


def interactive(root: Path, pages: list[str], slower: int = 4) -> None:
    """Print how long a slower processor is busy until a page from disk is loaded and first idle: it answers.

    Processor time of the page's main thread, so that other work on the machine does not count.
    """
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        print("interactive: NOT RUN, playwright is missing")
        return
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        times = {name: statistics.median(busy(browser, root / name) for _ in range(3)) for name in pages}
        browser.close()
    shown = ", ".join(f"{name} {slower * taken:.0f}" for name, taken in times.items())
    print(f"interactive at {slower}x, ms (limit {INTERACTIVE_MS}): {shown}")


def busy(browser: Any, path: Path) -> float:
    """Milliseconds of processor time of the main thread from the address to the first idle moment."""
    page = browser.new_page()
    devtools = page.context.new_cdp_session(page)
    devtools.send("Performance.enable", {"timeDomain": "threadTicks"})

    def spent() -> float:
        metrics = devtools.send("Performance.getMetrics")["metrics"]
        return 1e3 * next(item["value"] for item in metrics if item["name"] == "TaskDuration")

    before = spent()
    page.goto(path.as_uri(), wait_until="load")
    page.evaluate("() => new Promise((done) => requestIdleCallback(() => done(null)))")
    taken = spent() - before
    page.close()
    return taken


def whole(site: Site, store: Store) -> None:
    """Build with nothing to take over."""
    shutil.rmtree(site.generated, ignore_errors=True)
    build_site(site, store, force=True)


def one_sentence(site: Site, store: Store) -> None:
    """Build after a change of one sentence of a page."""
    page = site.pages / "about" / "limits.md"
    page.write_text(f"{page.read_text('utf-8')}\nA sentence more.\n", "utf-8")
    build_site(site, store)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--site", type=Path, default=Path(__file__).parents[1] / "site")
    parser.add_argument("--artifacts", type=Path, default=Path(__file__).parents[1] / "artifacts")
    arguments = parser.parse_args()
    store = Store(arguments.artifacts)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "site"
        shutil.copytree(arguments.site, root, ignore=shutil.ignore_patterns("build", ".generated"))
        executed = arguments.site.parent / "notebooks" / ".executed"
        if executed.is_dir():
            shutil.copytree(executed, Path(folder) / "notebooks" / ".executed")
        site = Site(root)
        report = build_site(site, store)
        docs = site.generated / "docs"
        markdown = [path.relative_to(docs).as_posix() for path in sorted(docs.rglob("*.md"))]
        actions: dict[str, Callable[[], object]] = {
            "mkdocs alone": lambda: run_mkdocs(site.generated, Path(folder) / "bare", markdown, lambda: None),
            "build": lambda: whole(site, store),
            "one sentence": lambda: one_sentence(site, store),
            "nothing changed": lambda: build_site(site, store),
            "audit": lambda: audit_site(site.build, store),
        }
        times: dict[str, list[float]] = {name: [] for name in actions}
        for _ in range(arguments.repeats):
            for name, action in actions.items():
                times[name].append(timed(action))
    medians = {name: statistics.median(values) for name, values in times.items()}
    peer = medians["mkdocs alone"]
    print(f"{report.pages} pages, {report.values} bound values, {report.artifacts} artifacts")
    print(f"{'what':<18}{'median s':>10}{'min s':>9}{'x mkdocs alone':>16}")
    for name, values in times.items():
        print(f"{name:<18}{medians[name]:>10.2f}{min(values):>9.2f}{medians[name] / peer:>16.2f}")
    for name, most in (("build", 10), ("one sentence", 3), ("audit", 10)):
        figure(f"site, {name}", medians[name], "s", most=most)
    weights(report.site)
    charts(report.site)
    heavy = sorted(pages_of(report.site), key=lambda name: -weight(report.site, name).unasked)
    interactive(report.site, ["index.html", *(name for name in heavy if name != "index.html")][:9])


if __name__ == "__main__":
    main()
