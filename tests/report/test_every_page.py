# ruff: noqa: E501
"""Pages of the project's own site, every one nightly, in light, dark and phone width: quiet, whole, within bounds, axe-core clean."""

from __future__ import annotations

import csv
import json
import random
import re
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
from k3repro.report._disputed import prints_of
from k3repro.report._html import parse_page
from k3repro.report._search import INDEX
from k3repro.report._sources import Sources
from k3repro.store import Store

pytestmark = [pytest.mark.browser, pytest.mark.slow]
# Uncompressed bytes that a page loads unasked, HTML and all; and the median of HTML alone and with all.
MOST_BYTES, MIDDLE_HTML, MIDDLE_BYTES = 1_000_000, 100_000, 250_000
SAMPLE = 20  # pages of the tour; those that changed come besides
CARDS = 3  # values of a page whose card is opened


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository's site, built from its artifacts, without notebooks; what its last build kept is taken over."""
    root = tmp_path_factory.mktemp("whole")
    for part in ("site", "pipelines", "docs", "benchmarks"):
        shutil.copytree(REPOSITORY / part, root / part, ignore=shutil.ignore_patterns("build", ".generated"))
    kept = Path("site/.generated/kept")
    if (REPOSITORY / kept).is_dir():
        shutil.copytree(REPOSITORY / kept, root / kept)
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
                and raw in text.replace(",", "")
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


def test_the_table_of_contradictions_has_the_rows_that_are_counted(whole: Path) -> None:
    rows = list(csv.DictReader((whole / "data/claims-findings.csv").open(encoding="utf-8")))
    counted = list(csv.DictReader((whole / "data/claims-summary.csv").open(encoding="utf-8")))
    own = sum(int(row["contradicted"]) for row in counted)
    assert {int(row["listed"]) for row in counted} == {len(rows)} and rows
    assert {int(row["printed_again"]) for row in counted} == {len(rows) - own}


def test_whatever_a_search_finds_has_words_to_quote(whole: Path) -> None:
    entries = json.loads((whole / INDEX).read_text("utf-8").removeprefix("window.k3Search=").rstrip(";\n"))
    assert [address for _, address, _, _, prose in entries if not prose] == [] and len(entries) > 1000


# What a reader types, and where the best answer stands.
ASKED = {
    "35,000": "index.html#finding-short",
    "10.28": "index.html#finding-int4",
    "1M context": "capacity.html",
    "tokens per second": "envelope.html",
    "KV pool": "budget.html#pools",
    "TTFT": "latency.html",
    "glossary": "about/glossary.html",
    "buy": "index.html",
    "100 users": "size-your-cluster.html",
    "how many nodes": "index.html#how-many-nodes",
    "how many nodes do I need": "index.html#how-many-nodes",
    "can the simulator be trusted?": "fidelity.html",
    "which claims are wrong": "claims/findings.html",
    "int4 error": "index.html#finding-int4",
    "long context slow": "index.html#finding-splits",
}


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_what_readers_ask_comes_first(whole: Path) -> None:
    script = whole / "assets/k3/k3-search.js"
    program = (
        f"globalThis.window=globalThis;require({json.dumps(str(script))});require({json.dumps(str(whole / INDEX))});"
        "const e=k3Find.read(k3Search),g=k3Find.names(e);"
        f"console.log(JSON.stringify({json.dumps(list(ASKED))}.map(t=>k3Find.search(e,g,t).slice(0,1).map(x=>x.address))))"
    )
    done = subprocess.run(["node", "-e", program], capture_output=True, text=True, check=True)
    found = dict(zip(ASKED, json.loads(done.stdout), strict=True))
    wrong = {
        text: first for text, first in found.items() if not first or not first[0].startswith(ASKED[text])
    }
    assert wrong == {}


def test_a_number_that_every_ledger_contradicts_says_so_wherever_it_stands(whole: Path) -> None:
    """In cells, sentences and captions: with the unit in which nobody's printing of it holds."""
    with Store(REPOSITORY / "artifacts").catalog() as catalog:
        prints = prints_of(Sources(catalog, {}).claims)
    held = {key[1:] for key, same in prints.items() if all(one.verdict != "contradicted" for one in same)}
    wrong = {key[1:] for key in prints} - held
    told = {name for name in pages_of(whole) if name != "claims/findings.html"}  # a page about nothing else
    silent, marked = [], 0
    for name in sorted(told):
        article = next(parse_page((whole / name).read_bytes())[0].iter("article"))
        for number, unit in wrong:
            if unit not in {"GiB", "MiB", "GB", "token", "token/s"}:
                continue
            shown = {f"{number:,.10g}", f"{number:.10g}", f"{number / 1000:g}K"}
            text = re.compile(
                rf"(?<![\d.,])(?:{'|'.join(map(re.escape, shown))})\s*{unit.replace('token', 'tokens?')}\b"
            )
            for place in article.iter("p", "td", "dd", "figcaption", "caption", "h2", "h3"):
                if text.search("".join(place.itertext())):
                    around = place.xpath(
                        "ancestor-or-self::tr | ancestor-or-self::*[@class='k3-finding']"
                    ) or [place]
                    says = "contradicted" in "".join(around[0].itertext())
                    marked += says
                    silent += [] if says else [f"{name}: {''.join(place.itertext()).strip()[:80]}"]
    assert silent == [] and marked >= 10
