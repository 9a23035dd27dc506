"""The pages a newcomer reads first are true: paths exist, TTFT is defined once, links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DESIGN = (ROOT / "docs" / "design.md").read_text("utf-8")
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").glob("*.md")),
]
TTFT = re.compile(r"first_token_ns\s*-\s*(\w+\.)?sent_ns")


def test_one_number_takes_at_most_fifteen_files_and_all_of_them_exist() -> None:
    section = DESIGN.split("## The way of one number")[1]
    files = re.findall(r"^\d+\. `([^`]+)`", section, re.MULTILINE)
    assert 10 <= len(files) <= 15
    assert [name for name in files if not (ROOT / name).is_file()] == []


def test_first_token_time_is_defined_in_one_place() -> None:
    """Per request by the record, over requests by the catalog's view; pages read the view."""
    sql = [*ROOT.glob("site/queries/**/*.sql"), *ROOT.glob("src/k3repro/**/*.sql")]
    defining = {path.relative_to(ROOT).as_posix() for path in sql if TTFT.search(path.read_text("utf-8"))}
    assert defining == {"src/k3repro/store/views.sql"}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_to_files_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text("utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []
