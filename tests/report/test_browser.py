# ruff: noqa: E501
"""The built site in Chromium, from disk: no request, no console message, charts drawn, cards right, in every light."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.browser
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
PAGES = ("index.html", "wall-law.html", "artifacts.html", "journey.html", "long.html")
VIEWS = [(scheme, width) for scheme in ("light", "dark") for width in (1280, 390)]


class Patient:
    """A browser whose pages wait as long as it takes; of its own it gives up after half a minute."""

    def __init__(self, browser: Any) -> None:
        self._browser = browser

    def new_context(self, **options: Any) -> Any:
        return self._patient(self._browser.new_context(**options))

    def new_page(self, **options: Any) -> Any:
        return self._patient(self._browser.new_page(**options))

    def _patient(self, opened: Any) -> Any:
        opened.set_default_timeout(600_000)
        return opened


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        sync_playwright = None
    if sync_playwright is None or CHROMIUM is None:
        if "browser" in os.environ.get("K3_REQUIRE", ""):
            pytest.fail("K3_REQUIRE=browser, but Chromium or playwright is missing")
        pytest.skip("Chromium and playwright are needed")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield Patient(launched)
        launched.close()


def expect(locator: Any) -> Any:
    """Playwright's waiting assertion; its wait_for_function evaluates text, which the pages' policy forbids."""
    from playwright.sync_api import expect as waiting

    waiting.set_options(timeout=600_000)
    return waiting(locator)


def visit(
    browser: Any, url: str, scheme: str = "light", width: int = 1280, *, live: bool = True
) -> tuple[Any, list[str]]:
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page, heard = context.new_page(), []
    page.on("console", lambda message: heard.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: heard.append(str(error)))
    page.on("request", lambda request: heard.append(request.url) if outside(request.url) else None)
    page.goto(url)
    if live and page.locator(".k3-figure").count():
        page.wait_for_selector(".k3-explore, .vega-embed", state="attached")
        page.evaluate("globalThis.k3Figures.drawAll().then(() => null)")
        expect(page.locator(".vega-embed svg .role-axis-label").first).to_be_attached()
    return page, heard


def outside(url: str) -> bool:
    return not url.startswith(("file:", "data:", "blob:"))


@pytest.mark.parametrize(("scheme", "width"), VIEWS)
@pytest.mark.parametrize("name", PAGES)
def test_every_page_is_quiet_and_fits(browser: Any, built: Path, name: str, scheme: str, width: int) -> None:
    page, heard = visit(browser, (built / name).as_uri(), scheme, width)
    assert heard == []
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    page.context.close()


def test_charts_follow_the_colour_scheme_without_leaving_views(browser: Any, built: Path) -> None:
    page, heard = visit(browser, (built / "wall-law.html").as_uri())
    light = page.evaluate("document.querySelector('.vega-embed .role-axis-label text').getAttribute('fill')")
    page.click("label[title='Switch to dark']")
    expect(page.locator(".vega-embed .role-axis-label text").first).not_to_have_attribute("fill", light)
    assert page.evaluate("document.querySelectorAll('.k3-chart .vega-embed svg').length") == 1
    assert page.evaluate("document.querySelector('.k3-static').hidden") and heard == []
    label = page.evaluate(
        "document.querySelector('.k3-chart [role=graphics-document]').getAttribute('aria-label')"
    )
    assert "rises with reply length" in label
    page.context.close()


@pytest.mark.parametrize("way", ["hover", "focus", "tap"])
def test_the_card_says_what_the_value_is(browser: Any, built: Path, way: str) -> None:
    page, heard = visit(browser, (built / "wall-law.html").as_uri())
    value = page.locator("data.k3-value").first
    if way == "hover":
        value.hover()
    elif way == "tap":
        value.click()
    else:
        page.keyboard.press("Tab")
        while not page.evaluate("document.activeElement.matches('data.k3-value')"):
            page.keyboard.press("Tab")
    card = page.locator("#k3-card")
    card.wait_for(state="visible")
    text = card.inner_text()
    assert (
        value.get_attribute("value") in text.replace(",", "")
        and "simulated" in text
        and "sweep.wall_s" in text
    )
    assert "k3repro artifacts sql" in text and "640" in text and "Wall time by reply length" in text
    assert "SELECT seal, osl" in card.locator("pre").last.text_content()
    page.keyboard.press("Escape")
    card.wait_for(state="hidden")
    assert heard == []
    page.context.close()


def test_switches_choose_rows_scales_and_small_charts(browser: Any, built: Path) -> None:
    page, heard = visit(browser, (built / "journey.html").as_uri())
    figure = page.locator("figure.k3-figure").nth(1)
    marks = figure.locator(".vega-embed .mark-symbol.role-mark path")
    assert marks.count() == 5
    figure.locator("select").select_option("Prefill")
    expect(marks).to_have_count(2)
    figure.locator("select").select_option("")
    figure.get_by_role("button", name="side by side: act").click()
    expect(figure.locator(".vega-embed .mark-symbol.role-mark")).to_have_count(2)
    log = figure.get_by_role("button", name="logarithmic x axis")
    assert log.get_attribute("aria-pressed") == "true", "the chart itself asks for it"
    log.click()
    expect(log).to_have_attribute("aria-pressed", "false")
    expect(figure.locator("[aria-label*='Reply length'][aria-label*='linear scale']").first).to_be_attached()
    assert heard == []
    page.context.close()


@pytest.mark.parametrize("width", [390, 768, 1440])
def test_what_a_search_finds_lies_above_everything(browser: Any, built: Path, width: int) -> None:
    page, heard = visit(browser, (built / "wall-law.html").as_uri(), width=width, live=False)
    page.locator(".k3-search input").fill("wall")
    page.locator(".k3-search-panel li").first.wait_for()
    covered = page.evaluate(
        """() => { const panel = document.querySelector('.k3-search-panel'), box = panel.getBoundingClientRect(), found = [];
        for (let x = box.left + 4; x < box.right; x += 8) for (let y = box.top + 4; y < Math.min(box.bottom, innerHeight); y += 8) {
          const top = document.elementFromPoint(x, y); if (!panel.contains(top)) found.push(`${top && top.className} at ${x}, ${y}`); }
        return found; }"""
    )
    assert covered == [] and heard == []
    page.context.close()


def test_a_journey_plays_pauses_and_steps(browser: Any, built: Path) -> None:
    page, heard = visit(browser, (built / "journey.html").as_uri())
    shown = "[...document.querySelectorAll('.k3-steps > li')].filter(li => !li.hidden).map(li => li.dataset.stage)"
    assert page.evaluate(shown) == ["prefill pool"]
    assert page.locator(".k3-stages li[aria-current]").inner_text() == "prefill pool"
    play = page.get_by_role("button", name="Play")
    play.click()
    page.get_by_role("button", name="Pause").click()
    for _ in range(4):
        page.get_by_role("button", name="Next").press("ArrowRight")
    assert page.evaluate(shown) == ["client"]
    assert page.locator(".k3-acts li[aria-current]").inner_text() == "Decode"
    page.get_by_role("button", name="All steps").click()
    assert len(page.evaluate(shown)) == 5
    page.emulate_media(media="print")
    assert page.locator(".k3-player").is_hidden()
    assert heard == []
    page.context.close()


def test_a_drawing_stays_still_until_a_reader_points_at_it(browser: Any, built: Path) -> None:
    page, heard = visit(browser, (built / "wall-law.html").as_uri(), live=False)
    assert page.locator(".vega-embed").count() == 0 and page.locator(".k3-static svg").first.is_visible()
    page.locator(".k3-chart").first.hover()
    expect(page.locator(".vega-embed svg .role-axis-label").first).to_be_attached()
    page.locator(".vega-embed .mark-symbol path").first.hover(force=True)
    tip = page.locator("#vg-tooltip-element.visible")
    expect(tip).to_contain_text("Reply length (tokens)")
    assert "Wall time (s)" in tip.inner_text() and heard == []
    page.context.close()


def test_a_phone_draws_its_charts_at_its_own_width(browser: Any, built: Path) -> None:
    page, _ = visit(browser, (built / "wall-law.html").as_uri(), width=390, live=False)
    page.locator(".k3-chart").first.scroll_into_view_if_needed()
    expect(page.locator(".vega-embed svg").first).to_be_attached()
    assert page.evaluate("document.querySelector('.vega-embed svg').getAttribute('width') <= 390")
    page.context.close()


SMALL = """() => [...document.querySelectorAll('article :is(button, summary, select, .k3-source-links a), .md-header :is(input, label.md-icon)')]
  .filter((item) => item.offsetParent && item.matches(':not(.md-option)') && item.getBoundingClientRect().height < 43.9)
  .map((item) => `${item.tagName} ${item.className} ${item.textContent}`)"""


def test_what_a_finger_presses_is_large_enough(browser: Any, built: Path) -> None:
    for name in ("wall-law.html", "long.html"):
        page, _ = visit(browser, (built / name).as_uri(), width=390, live=False)
        assert page.evaluate(SMALL) == []
        page.context.close()


def test_a_long_table_can_be_skipped_by_key(browser: Any, built: Path) -> None:
    page, _ = visit(browser, (built / "long.html").as_uri())
    skip = page.locator("a.k3-skip")
    skip.focus()
    skip.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "CSV"
    page.context.close()


def test_a_long_table_unfolds_sorts_and_filters_whole(browser: Any, built: Path) -> None:
    page, heard = visit(browser, (built / "long.html").as_uri())
    rows = page.locator("table.k3-grid tbody tr:visible")
    assert rows.count() == 15 and page.evaluate("window.k3Behind === undefined"), "rows come when asked for"
    assert page.get_by_role("button", name="shorter").count() == 1, "badges beyond the screen are known"
    page.get_by_role("button", name="Show all 25 rows").click()
    expect(rows).to_have_count(25)
    assert page.locator("table.k3-grid td[tabindex]").count() == 25 * 7
    assert page.locator("th:visible").count() == 7
    page.get_by_role("button", name="More columns").click()
    assert page.locator("th:visible").count() == 8
    page.get_by_role("button", name="shorter").click()
    expect(rows).to_have_count(10)
    assert heard == []
    page.context.close()


def test_sorting_and_searching_a_long_table_take_all_its_rows(browser: Any, built: Path) -> None:
    page, _ = visit(browser, (built / "long.html").as_uri())
    page.locator("th button").first.click()
    expect(page.locator("table.k3-grid tbody tr")).to_have_count(25)
    page.goto((built / "long.html").as_uri() + "?q=2,048")
    expect(page.locator("table.k3-grid tbody tr:visible")).to_have_count(9)
    page.context.close()


def test_the_card_on_a_phone_leaves_the_page_in_sight_and_closes(browser: Any, built: Path) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page = context.new_page()
    page.goto((built / "wall-law.html").as_uri())
    page.locator("data.k3-value").first.tap()
    card = page.locator("#k3-card")
    card.wait_for(state="visible")
    assert card.bounding_box()["height"] < 844 * 0.45
    small = page.evaluate(
        "[...document.querySelectorAll('#k3-card :is(button, summary)')].filter(e => e.checkVisibility())"
        ".map(e => e.getBoundingClientRect()).filter(b => b.height < 43.5).length"
    )
    assert small == 0
    card.get_by_role("button", name="Close").tap()
    card.wait_for(state="hidden")
    context.close()


def test_tables_sort_by_machine_values(browser: Any, built: Path) -> None:
    page, _ = visit(browser, (built / "wall-law.html").as_uri())
    cells = (
        "[...document.querySelectorAll('table.k3-grid')[0].tBodies[0].rows].map(r => r.cells[0].textContent)"
    )
    button = page.locator("table.k3-grid").first.locator("th button").first
    assert page.evaluate(cells) == ["16", "64", "256", "1,024", "2,048"]
    button.click()
    button.click()
    assert page.evaluate(cells) == ["2,048", "1,024", "256", "64", "16"]
    page.context.close()


def test_model_output_with_markup_is_text(browser: Any, built: Path) -> None:
    page, heard = visit(browser, (built / "wall-law.html").as_uri())
    cell = page.locator("table.k3-grid td", has_text="alert(1)").first
    assert cell.inner_text() == '<script>alert(1)</script> **bold** {{ 7 * 7 }} | `tick` &amp; "quote"'
    assert heard == []
    page.context.close()


def test_the_policy_stops_injected_code(browser: Any, built: Path, tmp_path: Path) -> None:
    shutil.copytree(built, tmp_path / "site")
    path = tmp_path / "site" / "index.html"
    path.write_text(
        path.read_text("utf-8").replace("</article>", "<script>document.title='owned'</script></article>", 1)
    )
    page, heard = visit(browser, path.as_uri())
    assert page.title() != "owned" and any("Content Security Policy" in line for line in heard)
    page.context.close()


def test_without_scripts_the_drawing_and_the_rows_remain(browser: Any, built: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((built / "wall-law.html").as_uri())
    assert page.locator(".k3-static svg").is_visible() and page.locator("table.k3-grid").first.is_visible()
    context.close()
