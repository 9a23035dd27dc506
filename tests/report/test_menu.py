"""The menu: labels are titles, no page twice, patterns take what no entry before took."""

from __future__ import annotations

import re

import yaml  # type: ignore[import-untyped]
from lxml import html

from k3repro.report import Site, build_site
from k3repro.report._mkdocs import configuration
from k3repro.store import Store

NAV = """site_name: Test
nav:
  - Findings:
      - index.md
      - missing.md
  - Waves:
      - wall-law.md
      - w*.md
      - Inside:
          - folder/*
theme: {name: material}
"""


def test_patterns_take_what_is_left_and_the_rest_follows(site: Site) -> None:
    (site.root / "mkdocs.yml").write_text(NAV)
    pages = ["folder/a.md", "folder/b.md", "index.md", "other.md", "wall-law.md", "water.md"]
    nav = yaml.safe_load(configuration(site, pages, {"folder/b.md": "B, again"}, []))["nav"]
    assert nav == [
        {"Findings": ["index.md"]},
        {"Waves": ["wall-law.md", "water.md", {"Inside": ["folder/a.md", {"B, again": "folder/b.md"}]}]},
        "other.md",
    ]


def test_pages_have_breadcrumbs_an_active_entry_and_their_title_in_the_menu(site: Site, store: Store) -> None:
    built = build_site(site, store).site
    page = html.parse(str(built / "wall-law.html"))
    crumbs = page.xpath("//nav[@aria-label='Breadcrumbs']//a")
    assert crumbs[0].text_content().strip() == "Home" and len(crumbs) == 2
    active = page.xpath("//a[contains(@class, 'md-nav__link--active')]")
    title = page.xpath("//h1")[0].text_content().strip().rstrip("¶")
    assert title in {re.sub(r"\s+", " ", link.text_content()).strip() for link in active}
    assert page.xpath("//a[contains(@class, 'md-footer__link')]")


def test_every_page_of_the_project_is_listed_once_under_its_own_title() -> None:
    site = Site.find()
    pages = [name for name in site.templates() if "each:" not in site.templates()[name].text]
    text = configuration(site, pages, {}, [])
    assert not [item for item in yaml.safe_load(text)["nav"] if isinstance(item, str)], (
        "a page without a place"
    )
    titles = []
    for name in pages:
        page = site.templates()[name].text
        title = re.search(r'(?m)^title: "?(.*?)"?$', page).group(1)
        assert re.search(r"(?m)^# (.*)$", page).group(1) == title, name
        titles.append(title)
    assert len(set(titles)) == len(titles)
