"""A site of somebody's own is its name, its pages and its queries: the build brings the theme."""

from __future__ import annotations

from pathlib import Path

import pytest
from lxml import html
from small_site import QUERIES, fill

from k3repro.report import Site, audit_site, build_site
from k3repro.store import Store

PAGE = """---
title: Walls
description: How long waves take.
---

# Walls

{{ table("sweep", caption="Walls by length of the reply.") }}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    fill(Store(tmp_path / "artifacts"))
    for folder in ("pages", "queries"):
        (tmp_path / "site" / folder).mkdir(parents=True)
    (tmp_path / "site" / "mkdocs.yml").write_text("site_name: Mine\nnav: [index.md]\n")
    (tmp_path / "site" / "pages" / "index.md").write_text(PAGE)
    (tmp_path / "site" / "queries" / "sweep.sql").write_text(QUERIES["sweep"])
    return tmp_path


@pytest.mark.slow
def test_it_builds_without_a_template_and_its_audit_is_clean(project: Path) -> None:
    built = build_site(Site(project / "site"), Store(project / "artifacts")).site
    audit = audit_site(built, alone=True, checkout=project)
    assert audit.findings == [] and audit.pages == 1 and audit.values > 4
    page = html.parse(str(built / "index.html"))
    assert page.xpath("//data[@class='k3-digest']/@value") == Store(project / "artifacts").heads()
    assert not page.xpath("//meta[@name='generator']")


@pytest.mark.slow
def test_its_own_template_goes_before(project: Path) -> None:
    (project / "site" / "mkdocs.yml").write_text(
        "site_name: Mine\nnav: [index.md]\ntheme: {features: [navigation.path]}\n"
    )
    path = project / "site" / "overrides" / "partials" / "path.html"
    path.parent.mkdir(parents=True)
    path.write_text('{% if page %}<nav aria-label="Where"></nav>{% endif %}')
    built = build_site(Site(project / "site"), Store(project / "artifacts")).site
    assert '<nav aria-label="Where">' in (built / "index.html").read_text("utf-8")
    assert audit_site(built, alone=True, checkout=project).findings == []
