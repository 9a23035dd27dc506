"""Pages made from rows, trees made from rows, links in cells: right ones pass, tampered ones are findings."""

from __future__ import annotations

import pytest

from k3repro.errors import InputError, K3Error
from k3repro.report import Site, audit_site, build_site
from k3repro.store import Store

TREE = """-- title: Waves as a tree
-- column depth: {hide = true}
-- column href: {hide = true}
-- column name: {label = "", kind = "code", link = "href"}
-- column wall_s: {label = "wall", unit = "s", format = ".2f"}
-- column verdict: {label = "", kind = "badge"}
SELECT seal, CAST(osl > (SELECT min(osl) FROM sweep_waves WHERE tier = 'simulated') AS BIGINT) AS depth,
  'wave ' || osl AS name, 'waves/w' || osl || '.html#here' AS href, wall_s, 'supported' AS verdict, osl
FROM sweep_waves WHERE tier = 'simulated' ORDER BY osl
"""
ROWS = """-- title: Pages
SELECT seal, 'w' || osl AS page, osl, 'A "wave"' AS title FROM sweep_waves
 WHERE tier = 'simulated' ORDER BY osl
"""
WAVE = """---
title: {{ row.title | tojson }}
description: One wave.
each: by-row
page: {page}
---

# A wave

It has {{ value("by-row", "osl", where={"page": row.page}) }} tokens; all of them:

{{ tree("as-tree", id="here") }}

{% for one in rows("by-row", where={"page": row.page}) %}
{{ value("sweep", "wall_s", where={"osl": one.osl}) }}
{% endfor %}
"""


@pytest.fixture
def paged(site: Site) -> Site:
    (site.queries / "as-tree.sql").write_text(TREE)
    (site.queries / "by-row.sql").write_text(ROWS)
    (site.pages / "waves").mkdir()
    (site.pages / "waves" / "wave.md").write_text(WAVE)
    return site


def test_every_row_gets_its_page_with_a_tree_and_audit_makes_both_again(paged: Site, store: Store) -> None:
    built = build_site(paged, store).site
    made = sorted(path.name for path in (built / "waves").glob("*.html"))
    assert len(made) > 1 and "wave.html" not in made
    text = (built / "waves" / made[0]).read_text("utf-8")
    assert 'id="here"' in text and f'href="../waves/{made[0]}#here"' in text and "each:" not in text
    assert audit_site(built, alone=True).ok


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('data-badge="supported">supported', 'data-badge="supported">contradicted'),
        ("#here", "#there"),
        ("wave ", "waves "),
    ],
)
def test_a_tree_that_was_touched_is_a_finding(paged: Site, store: Store, old: str, new: str) -> None:
    built = build_site(paged, store).site
    page = min((built / "waves").glob("*.html"))
    head, mark, tree = page.read_text("utf-8").partition('<ul class="k3-tree"')
    assert old in tree
    page.write_text(head + mark + tree.replace(old, new, 1), "utf-8")
    assert any(finding.code == "bound" for finding in audit_site(built, alone=True))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("page: {page}", "page: {nothing}", "returns no column 'nothing'"),
        ("page: {page}\n", "", "go together"),
        ("page: {page}", "page: same", "is made twice"),
        ("page: {page}", "page: ../{page}", "is no file name"),
        ("each: by-row", "each: nope", "no query is named"),
        ('"page": row.page})', '"page": row.pag})', "waves/wave.md"),
    ],
)
def test_a_wrong_template_names_itself(paged: Site, store: Store, old: str, new: str, said: str) -> None:
    path = paged.pages / "waves" / "wave.md"
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(K3Error, match=said):
        build_site(paged, store)


def test_a_depth_that_skips_a_level_is_refused(paged: Site, store: Store) -> None:
    (paged.queries / "as-tree.sql").write_text(TREE.replace("AS BIGINT)", "AS BIGINT) * 2"))
    with pytest.raises(InputError, match="depth 2 cannot follow 0"):
        build_site(paged, store)
