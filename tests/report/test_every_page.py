# ruff: noqa: E501
"""Pages of the project's own site, every one nightly, in light, dark and phone width: quiet, whole, within bounds, axe-core clean."""

from __future__ import annotations

import random
import shutil
import statistics
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_site import REPOSITORY
from tests.report._badges import of_twins, places
from tests.report._visits import axe_source, pages_of, tour, weight
from tests.report.test_browser import browser  # noqa: F401

from k3repro.errors import MachineError
from k3repro.report import Site, build_site
from k3repro.store import Store

pytestmark = [pytest.mark.browser, pytest.mark.slow]
# Uncompressed bytes that a page loads unasked, HTML and all; and the median of HTML alone and with all.
MOST_BYTES, MIDDLE_HTML, MIDDLE_BYTES = 1_000_000, 100_000, 420_000
SAMPLE = 20  # pages of the tour; those that changed come besides
CARDS = 3  # values of a page whose card is opened


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository's site, built from its artifacts, without notebooks."""
    root = tmp_path_factory.mktemp("whole")
    for part in ("site", "pipelines", "docs", "benchmarks"):
        shutil.copytree(REPOSITORY / part, root / part, ignore=shutil.ignore_patterns("build", ".generated"))
    shutil.copytree(REPOSITORY / "artifacts/ledger", root / "artifacts/ledger")
    for path in REPOSITORY.glob("*.*"):
        if path.is_file():
            shutil.copyfile(path, root / path.name)
    return build_site(Site(root / "site"), Store(REPOSITORY / "artifacts")).site


def changed_pages() -> set[str]:
    """Stems of the pages whose source differs from the last commit, or did in it."""
    if shutil.which("git") is None:
        return set()
    command = ["git", "diff", "--name-only", "HEAD~1", "--", "site/pages"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    return {Path(line).stem for line in done.stdout.splitlines()}


def some_pages(pages: list[str]) -> list[str]:
    """Home, what changed, and a sample; `make test-nightly` sees all."""
    changed = changed_pages()
    kept = [name for name in pages if name == "index.html" or changed & set(Path(name).with_suffix("").parts)]
    return sorted({*kept, *random.Random(20).sample(pages, SAMPLE)})


@pytest.mark.parametrize("choose", [some_pages, pytest.param(list, id="all", marks=pytest.mark.nightly)])
def test_pages_in_every_light_and_width(
    browser: Any,  # noqa: F811
    whole: Path,
    record_property: Any,
    choose: Callable[[list[str]], list[str]],
) -> None:
    try:
        axe, missing = axe_source(), ""
    except MachineError as error:
        axe, missing = "", f"axe-core: {error.what} (all else of each page was looked at)"
    pages = choose(pages_of(whole))
    # Two views hold light and dark, wide and narrow; a third would add a minute and no rule.
    visits = list(tour(browser, whole, pages, ["light", "dark phone"], axe))
    assert len(visits) == 2 * len(pages) and len(pages) >= SAMPLE
    record_property("slowest_charts_ms", max(visit.charts_ms for visit in visits))
    # A page loads no more than it is said to weigh.
    assert [visit.page for visit in visits if visit.unasked > weight(whole, visit.page).unasked] == []
    assert [f"{visit.page} ({visit.view}) {problem}" for visit in visits for problem in visit.problems] == []
    if missing:
        pytest.skip(missing)  # a pass would say that axe-core found nothing


def test_no_page_is_heavy(whole: Path, record_property: Any) -> None:
    weights = {name: weight(whole, name) for name in pages_of(whole)}
    middle = statistics.median(item.own for item in weights.values())
    middle_all = statistics.median(item.unasked for item in weights.values())
    record_property("median_own_bytes", middle)
    record_property("median_bytes", middle_all)
    heavy = {name: item.unasked for name, item in weights.items() if item.unasked > MOST_BYTES}
    assert heavy == {} and middle <= MIDDLE_HTML and middle_all <= MIDDLE_BYTES


def test_cards_of_sampled_values_say_what_the_values_are(browser: Any, whole: Path) -> None:  # noqa: F811
    draw, seen = random.Random(9), 0
    page = browser.new_page()
    for name in draw.sample(pages_of(whole), 12):
        page.goto((whole / name).as_uri())
        values = page.locator("article data.k3-value:visible, article td.k3-number[tabindex]:visible")
        for index in draw.sample(range(values.count()), min(CARDS, values.count())):
            value = values.nth(index)
            value.focus()
            value.press("Enter")
            text = page.locator("#k3-card").inner_text()
            raw = value.get_attribute("value") or value.get_attribute("data-value")
            tier = value.evaluate("e => e.dataset.tier || e.closest('[data-tier]').dataset.tier")
            query = value.evaluate("e => e.dataset.query || e.closest('table').dataset.query")
            assert (
                raw
                and raw in text
                and tier in text
                and f"{query}." in text
                and "k3repro artifacts sql" in text
            ), (name, raw, text)
            page.keyboard.press("Escape")
            seen += 1
    assert seen >= 10
    page.close()


def test_every_place_that_shows_what_a_twin_gave_says_so(whole: Path, tmp_path: Path) -> None:
    """Values, cells, rows behind a page, drawings: all that cites an artifact in whose making a core was seen."""
    twins = of_twins(Store(REPOSITORY / "artifacts"))
    found = list(places(whole, twins))
    assert [place for place, told in found if not told] == []
    assert len({place.split()[0] for place, _ in found}) > 40 and len(found) > 1000
    page = tmp_path / "wall-law.html"  # a value, and a drawing, that keep quiet are found
    html = (whole / page.name).read_text("utf-8")
    for old, new in (
        ('data-basis="simulated"', 'data-basis="measured"'),
        ("derived from simulated</span>", "</span>"),
    ):
        page.write_text(html.replace(old, new), "utf-8")
        assert html != page.read_text("utf-8") and not all(told for _, told in places(tmp_path, twins))
