# ruff: noqa: E501
"""What a page refuses: empty queries, unsupported statistics, circular differences, pairs without relation."""

from __future__ import annotations

from typing import Any

import pytest

from k3repro.errors import GateFailed, InputError
from k3repro.report import Site, Sources, build_site, parse_query
from k3repro.report._tables import table_html
from k3repro.report._values import value_html
from k3repro.store import Store

TIERS = {"a" * 64: "simulated", "b" * 64: "published", "c" * 64: "measured"}
SIM, PUB, MEA = TIERS


class Rows:
    """A catalog that answers every query with the same rows."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.rows = rows

    def query(self, sql: str, parameters: Any = None) -> list[dict[str, Any]]:
        if sql.startswith("SELECT * FROM artifacts"):
            return [
                {"seal": seal, "tier": tier, "basis": tier, "data": seal, "subject": ""}
                for seal, tier in TIERS.items()
            ]
        if "claims_audit" in sql:
            return []
        return [dict(row) for row in self.rows]


def sources(rows: list[dict[str, Any]], header: str = "") -> Sources:
    return Sources(Rows(rows), {"q": parse_query("q", f"{header}\nSELECT x FROM t ORDER BY x")})


def test_a_query_that_returns_nothing_by_surprise_fails() -> None:
    with pytest.raises(GateFailed, match="no rows"):
        sources([]).result("q")
    assert sources([], "-- empty: nothing ran").result("q").rows == []


def test_only_a_query_that_may_be_empty_forgives_a_view_nobody_sealed(store: Store) -> None:
    never = "SELECT seal, x FROM never_sealed_rows ORDER BY x"
    bare = Sources(store.catalog(), {"q": parse_query("q", never)})
    with pytest.raises(InputError, match="never_sealed_rows"):
        bare.result("q")
    told = parse_query("q", f"-- empty: nobody ran it\n{never}")
    assert Sources(store.catalog(), {"q": told}).result("q").rows == []
    wrong = parse_query("q", "-- empty: nobody ran it\nSELECT seal, no_column FROM artifacts ORDER BY seal")
    with pytest.raises(InputError, match="no_column"):
        Sources(store.catalog(), {"q": wrong}).result("q")


@pytest.mark.parametrize("relation", ["in-sample", "same-law"])
def test_no_difference_beside_a_circular_pair(relation: str) -> None:
    row = {"seal": [PUB, SIM], "printed": 1.0, "twin": 1.1, "relation": relation, "difference_s": 0.1}
    with pytest.raises(GateFailed, match="difference beside"):
        table_html(sources([row]), "q")
    with pytest.raises(GateFailed, match="difference beside"):
        value_html(sources([row]), "q", "difference_s")
    table_html(sources([{**row, "difference_s": None}]), "q")
    table_html(sources([{**row, "relation": "held-out"}]), "q")


def test_a_pair_shows_its_relation() -> None:
    row = {"seal": [PUB, SIM], "printed": 1.0, "twin": 1.1}
    with pytest.raises(GateFailed, match="without their relation"):
        table_html(sources([row]), "q")
    with pytest.raises(GateFailed, match="has no relation"):
        table_html(sources([{**row, "relation": None}]), "q")
    with pytest.raises(GateFailed, match="unknown relation"):
        table_html(sources([{**row, "relation": "close"}]), "q")
    with pytest.raises(GateFailed, match="without their relation"):
        table_html(sources([{**row, "relation": "held-out"}]), "q", columns=["printed", "twin"])


def test_quantiles_need_their_n() -> None:
    def show(n: int | None, seal: str = SIM) -> str:
        return value_html(sources([{"seal": seal, "p99_s": 1.5, "n": n}]), "q", "p99_s")

    assert ">1.50<" in show(500)
    with pytest.raises(GateFailed, match=r"499 observations do not support a p99.*use p95"):
        show(499)
    with pytest.raises(GateFailed, match="without a sample size"):
        show(None)
    assert ">1.50<" in show(None, PUB)
    with pytest.raises(GateFailed, match="do not support a median"):
        value_html(sources([{"seal": SIM, "median_s": 1.5, "n": 9}]), "q", "median_s")


def test_intervals_and_orders_need_serves() -> None:
    header = '-- column low: {interval = "serves"}\n-- column faster: {compares = "platforms"}'
    row = {"seal": MEA, "low": 1.0, "faster": "MI325X", "n_serves": 3}
    table_html(sources([row], header), "q", columns=["low", "faster"])
    with pytest.raises(GateFailed, match="interval over 2 serves"):
        value_html(sources([{**row, "n_serves": 2}], header), "q", "low")
    with pytest.raises(GateFailed, match="orders platforms from 1 serves"):
        value_html(sources([{**row, "n_serves": 1}], header), "q", "faster")


def test_a_value_needs_one_row_a_seal_and_its_own_unit() -> None:
    rows = [{"seal": SIM, "x": 1.0, "osl": 1}, {"seal": SIM, "x": 2.0, "osl": 2}]
    with pytest.raises(GateFailed, match="2 rows match"):
        value_html(sources(rows), "q", "x")
    with pytest.raises(GateFailed, match="0 rows match"):
        value_html(sources(rows), "q", "x", where={"osl": 3})
    with pytest.raises(InputError, match="no column 'y'"):
        value_html(sources(rows), "q", "y", where={"osl": 1})
    with pytest.raises(GateFailed, match="no artifact is cited"):
        value_html(sources([{"seal": None, "x": 1.0}]), "q", "x")
    with pytest.raises(GateFailed, match="not in the catalog"):
        value_html(sources([{"seal": "d" * 64, "x": 1.0}]), "q", "x")
    with pytest.raises(InputError, match="the query says 's'"):
        value_html(sources(rows, '-- column x: {unit = "s"}'), "q", "x", where={"osl": 1}, unit="ms")
    with pytest.raises(InputError, match="NaN"):
        sources([{"seal": SIM, "x": float("nan")}]).result("q")


def test_queries_say_what_is_wrong_with_them() -> None:
    with pytest.raises(InputError, match="no ORDER BY"):
        parse_query("q", "SELECT 1")
    with pytest.raises(InputError, match="unknown key 'uint'"):
        parse_query("q", '-- column x: {uint = "s"}\nSELECT 1 ORDER BY 1')
    with pytest.raises(InputError, match="cannot read"):
        parse_query("q", "-- column x = 7\nSELECT 1 ORDER BY 1")


def fails(site: Site, store: Store, text: str, match: str) -> None:
    page = site.pages / "wall-law.md"
    page.write_text(page.read_text("utf-8") + "\n" + text, "utf-8")
    with pytest.raises((GateFailed, InputError), match=match) as caught:
        build_site(site, store)
    assert "site/pages/wall-law.md" in str(caught.value) or "wall-law.html" in str(caught.value)


BAD_PAGES = {
    "typed number": ("It takes 74 ms.", r"wall-law.md:\d+: '74' has no artifact"),
    "number word": ("It takes twenty of them.", "'twenty' has no artifact"),
    "word of success": (
        'In-sample: {{ table("same", caption="A pair.") }} It is validated.', "'validated' stands beside",
    ),
    "pair in a sentence": (
        '{{ value("pair", "published_s", where={"osl": 16}) }} against {{ value("pair", "simulated_s", where={"osl": 16}) }}',
        "without their relation",
    ),
    "unknown query": ('{{ value("nope", "x") }}', "no query is named 'nope'"),
    "unknown figure": ('{{ figure("nope", "sweep", description="x") }}', "no figure is named 'nope'"),
    "no caption": ('{{ table("sweep") }}', "a table without a caption"),
    "broken template": ("{{ value( }}", "wall-law.md"),
    "raw frame": ('<iframe src="x"></iframe>', "iframe"),
    "value in a heading": ('## Takes {{ value("sweep", "wall_s", where={"osl": 16}) }}', "has no artifact"),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(BAD_PAGES))
def test_a_bad_page_fails_with_its_place(site: Site, store: Store, name: str) -> None:
    same = site.queries / "same.sql"
    same.write_text(
        "SELECT [p.seal, s.seal] AS seal, osl, p.wall_s AS a, s.wall_s AS b, 'in-sample' AS relation\n"
        "FROM printed_waves p JOIN sweep_waves s USING (osl) ORDER BY osl",
        "utf-8",
    )
    fails(site, store, *BAD_PAGES[name])


def test_a_refused_build_leaves_the_last_good_one(site: Site, store: Store) -> None:
    build_site(site, store)
    good = (site.build / "wall-law.html").read_bytes()
    fails(site, store, "It takes 74 ms.", "74")
    assert (site.build / "wall-law.html").read_bytes() == good


def test_an_unused_exemption_fails(site: Site, store: Store) -> None:
    entry = '[[exemption]]\npage = "wall-law.html"\nelement = "p"\ntoken = "TOKEN"\nreason = "a test"\n'
    page = site.pages / "wall-law.md"
    page.write_text(page.read_text("utf-8") + "\nBy the norm 9001.\n", "utf-8")
    (site.root / "exemptions.toml").write_text(entry.replace("TOKEN", "9001"), "utf-8")
    build_site(site, store)
    (site.root / "exemptions.toml").write_text(
        entry.replace("TOKEN", "9001") + entry.replace("TOKEN", "9002"), "utf-8"
    )
    with pytest.raises(GateFailed, match="'9002' in p of wall-law.html matches nothing"):
        build_site(site, store)


FIGURES = {
    "nan": ("scale=alt.Scale(domain=[0, float('nan')])", r"figure wall\): .*domain.1 is nan"),
    "own data": (None, "data its query did not return"),
}


@pytest.mark.parametrize("name", sorted(FIGURES))
def test_a_bad_figure_fails_and_is_named(site: Site, store: Store, name: str) -> None:
    path, (change, match) = site.figures / "wall.py", FIGURES[name]
    text = path.read_text("utf-8")
    text = text.replace('scale=alt.Scale(type="log", base=2)', change) if change else text.replace(
        "values=rows", 'values=[{**row, "wall_s": row["wall_s"] + 1} for row in rows]'
    )  # fmt: skip
    path.write_text(text, "utf-8")
    with pytest.raises((GateFailed, InputError), match=match):
        build_site(site, store)


def test_vocabulary_takes_names_only(site: Site, store: Store) -> None:
    for term in ("74ms", "900K", "twenty", "3.1x", "XII"):
        (site.root / "vocabulary.toml").write_text(f'[[name]]\nterm = "{term}"\nreason = "x"\n', "utf-8")
        with pytest.raises(InputError, match="is a number, not a name"):
            build_site(site, store)


@pytest.mark.parametrize("key", ["label", "unit", "about"])
@pytest.mark.parametrize("lie", ["under 74 ms", "twice as fast", "3x", "at most (96 %)", "(95 %) 7"])
def test_no_number_hides_in_the_head_of_a_table(key: str, lie: str) -> None:
    with pytest.raises(GateFailed, match="is described with"):
        sources([{"seal": SIM, "wall_s": 3.5}], f'-- column wall_s: {{{key} = "{lie}"}}').result("q")


def test_heads_say_how_a_column_is_computed_and_at_what_level_a_bound_holds() -> None:
    header = '-- column wall_s: {label = "at least (one-sided, 95 %)", about = "From <send> to the end"}'
    html = table_html(sources([{"seal": SIM, "wall_s": 3.5}], header), "q")
    assert 'title="From &lt;send&gt; to the end"' in html
    assert f'<tbody data-artifacts="{SIM}" data-tier="simulated">' in html and "<tr><td" in html


def test_a_row_that_cites_something_else_than_its_table_says_so_itself() -> None:
    rows = [{"seal": seal, "wall_s": 3.5} for seal in (SIM, SIM, PUB)]
    html = table_html(sources(rows), "q")
    assert html.count("data-artifacts") == 2 and f'<tr data-artifacts="{PUB}" data-tier="published">' in html
