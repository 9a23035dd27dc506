"""Every table and figure of the publication has its page, its query and its published artifact."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from k3repro.publications import PublishedTable, read_publication
from k3repro.report import Site, load_queries

ROOT = Path(__file__).parents[2]
SITE = ROOT / "site"
QUERIES = load_queries(SITE / "queries")
PAGES = Site(SITE).templates()

# Element -> the page, and the transcribed tables that a query of that page has to read.
TABLES = {
    "Table 1": ("tables/table-1.md", ["published-capacity.layouts"]),
    "Table 2": ("tables/table-2.md", ["published-capacity.grid"]),
    "Table 3": ("tables/table-3.md", ["published-decode.latency"]),
    "Table 4": ("tables/table-4.md", ["published-decode.slots"]),
    "Table 5": ("tables/table-5.md", ["published-decode.classes"]),
    "Table 6": ("tables/table-6.md", ["published-agentic.corpora"]),
    "Table 7": ("tables/table-7.md", ["published-agentic.replays"]),
    "model properties": ("tables/configuration.md", ["published-configuration.model"]),
    "checkpoint components": ("tables/configuration.md", ["published-configuration.components"]),
    "wall-law fits": ("tables/configuration.md", ["published-decode.wall_law"]),
    "worked example": (
        "tables/worked-example.md",
        ["published-recipe.worked_example", "published-recipe.question"],
    ),
    "slot ceilings": ("tables/configuration.md", ["published-recipe.slots"]),
    "hardware": ("tables/configuration.md", ["published-configuration.hardware"]),
    "serving configuration": ("tables/configuration.md", ["published-configuration.knobs"]),
    "software": ("tables/configuration.md", ["published-configuration.software"]),
}  # fmt: skip
FIGURES = {
    "Figure 1": ("figures/figure-1.md", ["published-contents.points"]),
    "Figure 2": ("figures/figure-2.md", ["published-decode.wall_law", "published-capacity.grid"]),
    "Figure 3": ("figures/figure-3.md", ["published-decode.envelope"]),
    "Figure 4": ("figures/figure-4.md", ["published-decode.latency", "published-decode.classes"]),
    "Figure 5": ("figures/figure-5.md", ["published-memory.waves", "published-contents.points"]),
    "Figure 6": ("figures/figure-6.md", ["published-contents.points", "earlier-report.recall_ladder"]),
    "Figure 7": ("figures/figure-7.md", ["published-agentic.replays", "published-decode.wall_law"]),
}
CALL = re.compile(r"\b(value|table|figure|journey)\(\s*\"([^\"]+)\"(?:\s*,\s*\"([^\"]+)\")?")


def transcribed() -> dict[str, PublishedTable]:
    files = sorted((ROOT / "artifacts" / "publications").glob("*/*.toml"))
    tables = [table for path in files for table in read_publication(path).tables]
    return {f"{table.artifact}.{table.name}": table for table in tables}


def shown(page: str, kinds: set[str]) -> set[str]:
    """The queries that a page's calls of some kinds use."""
    calls = CALL.findall(PAGES[page].text)
    return {
        second if kind in {"figure", "journey"} else first for kind, first, second in calls if kind in kinds
    }


def reads(query: str, table: str) -> bool:
    view = re.sub(r"[.-]", "_", table)
    return bool(re.search(rf"\b{view}\b", QUERIES[query].sql))


def missing(page: str, tables: list[str], kinds: set[str]) -> list[str]:
    """Tables that no query of the page reads."""
    queries = shown(page, kinds)
    return [table for table in tables if not any(reads(query, table) for query in queries)]


def contents() -> list[dict[str, str]]:
    return list(transcribed()["published-contents.elements"].rows())


def test_the_list_here_is_the_list_of_the_publication() -> None:
    assert {row["element"] for row in contents()} == {*TABLES, *FIGURES}
    kinds = {row["element"]: row["kind"] for row in contents()}
    assert {name for name, kind in kinds.items() if kind == "figure"} == set(FIGURES)


@pytest.mark.parametrize("element", [*TABLES, *FIGURES])
def test_every_element_has_a_page_that_reads_its_published_artifact(element: str) -> None:
    page, tables = {**TABLES, **FIGURES}[element]
    assert not set(tables) - set(transcribed()), "not transcribed"
    assert not missing(page, tables, {"table", "figure", "journey"})


@pytest.mark.parametrize("element", FIGURES)
def test_every_figure_is_drawn(element: str) -> None:
    page, _ = FIGURES[element]
    assert shown(page, {"figure", "journey"})


def test_numbered_elements_name_themselves_on_their_page() -> None:
    for row in contents():
        if row["kind"] != "configuration table":
            page, _ = {**TABLES, **FIGURES}[row["element"]]
            text = PAGES[page].text
            named = f'value("contents", "element", where={{"key": "{row["key"]}"}})'
            assert f"{{{{ {named} }}}} of the publication." in text


def test_every_transcribed_table_of_the_publication_is_shown_somewhere() -> None:
    files = (ROOT / "artifacts" / "publications" / "kimi_k3").glob("amd-di-kimi-k3*.toml")
    published = [
        f"{table.artifact}.{table.name}" for path in files for table in read_publication(path).tables
    ]
    queries = {query for page in PAGES for query in shown(page, {"value", "table", "figure", "journey"})}
    unread = [
        name for name in published if not any(reads(query, name) for query in queries if query in QUERIES)
    ]
    # Read by derivations (memory argument, capacity law, calibration), whose results the pages show.
    derived = {"published-capacity.constants", "published-memory.figures"}
    replaced = {"published-capacity.configuration", "published-capacity.worked_example"}
    assert set(unread) <= derived | replaced


def test_a_page_that_loses_its_query_is_noticed() -> None:
    page, tables = TABLES["Table 7"]
    assert missing("tables/table-6.md", tables, {"table", "figure"}) == tables
    assert missing(page, tables, set()) == tables
