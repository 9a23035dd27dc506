# ruff: noqa: E501
"""The gate under attack: every notation in every place is found, nothing else is, and no rule is idle."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.report._planted import ALL, BOUND, END, NOTATIONS, PLACES

from k3repro.report import _bound, _scripts, _verify
from k3repro.report._allowlist import Exemption
from k3repro.report._gate import PLACES as GATE_PLACES
from k3repro.report._grammar import RULES, Grammar
from k3repro.report._queries import load_queries
from k3repro.report._sources import Sources
from k3repro.store import Catalog, Finding, Store

pytestmark = pytest.mark.slow


class Checker:
    """One built page, checked again and again with something planted in it."""

    def __init__(self, built: Path) -> None:
        self.html = (built / "wall-law.html").read_text("utf-8")
        self.plain = (built / "index.html").read_text("utf-8")
        store = Store(built / "artifacts")
        files = {
            a.seal: (f"artifacts/{a.path.relative_to(store.root).as_posix()}", 0) for a in store.artifacts()
        }
        self.sources = Sources(Catalog.of(store.artifacts()), load_queries(built / "queries"), files)
        self.known = _bound.Known.of(built, self.sources)
        self.grammar = _verify.load_grammar(built / "gate")

    def findings(
        self, html: str, grammar: Grammar | None = None, places: frozenset[str] = GATE_PLACES,
        exemptions: tuple[Exemption, ...] = (),
    ) -> list[Finding]:  # fmt: skip
        outcome, used = _verify.Outcome(), set[Exemption]()
        grammar = grammar or self.grammar
        _verify.check_page(
            "wall-law.html",
            html.encode(),
            self.sources,
            self.known,
            grammar,
            list(exemptions),
            used,
            outcome,
            places,
        )
        return outcome.findings


@pytest.fixture(scope="module")
def checker(built: Path) -> Checker:
    return Checker(built)


def test_the_attack_is_as_wide_as_it_claims() -> None:
    assert len(NOTATIONS) >= 25 and len(PLACES) >= 10 and len(ALL) * (len(PLACES) - len(BOUND)) >= 500


def test_the_clean_pages_raise_no_alarm(checker: Checker) -> None:
    assert [str(finding) for finding in checker.findings(checker.html)] == []
    assert [str(finding) for finding in checker.findings(checker.plain)] == []


@pytest.mark.parametrize("place", sorted(PLACES))
def test_every_notation_is_found(checker: Checker, place: str) -> None:
    """One example of each notation in each place, every example in a paragraph."""
    page = checker.html if place in BOUND else checker.plain
    texts = [text for _, text in ALL] if place == "paragraph" else [texts[0] for texts in NOTATIONS.values()]
    assert checker.findings(page) == []
    assert [text for text in texts if not checker.findings(PLACES[place](page, text))] == []


@pytest.mark.nightly
@pytest.mark.parametrize("place", sorted({*PLACES} - {*BOUND}))
def test_every_example_of_a_notation_is_found_everywhere(checker: Checker, place: str) -> None:
    page, texts = checker.plain, [text for _, text in ALL]
    assert checker.findings(page) == []
    assert [text for text in texts if not checker.findings(PLACES[place](page, text))] == []


# What each rule of the grammar alone finds.
ONLY = {
    "digits": "74ms", "names": "p74", "words": "twenty", "roman": "XII", "shapes": "lOO ms",
    "characters": "t\u200bwelve",
}  # fmt: skip


@pytest.mark.parametrize("rule", sorted(RULES))
def test_no_rule_of_the_grammar_is_idle(checker: Checker, rule: str) -> None:
    page = PLACES["paragraph"](checker.html, ONLY[rule])
    without = Grammar(checker.grammar.vocabulary, RULES - {rule})
    assert checker.findings(page)
    assert checker.findings(page, without) == []


ONLY_AT = {
    "text": "<p>74</p>", "attributes": '<p title="74">x</p>', "aria": '<p aria-label="74">x</p>',
    "meta": '<meta name="x" content="74">', "counters": '<ol start="74"><li>x</li></ol>',
    "forms": '<input type="button" value="74">', "style": '<p style="direction:rtl">x</p>',
    "refused": '<p><object data="x">y</object></p>', "glued": "GLUED",
}  # fmt: skip


@pytest.mark.parametrize("place", sorted(GATE_PLACES))
def test_no_place_of_the_gate_is_idle(checker: Checker, place: str) -> None:
    page = checker.html.replace(END, ONLY_AT[place] + END, 1)
    if place == "glued":
        page = re.sub(r"(<data class=\"k3-value\"[^>]*>[^<]*</data>)", r"\1K", checker.html, count=1)
    assert checker.findings(page)
    assert checker.findings(page, places=GATE_PLACES - {place}) == []


GLUED = [
    "{}\u200bK",
    "{}\u00a0K",
    "{}\n x",
    "{} percent",
    "{}bn",
    "{}′",
    "{}\u0336",
    "{}<x-y>K</x-y>",
    "<x-y>-</x-y>{}",
    "~{}",
    "&lt; {}",
    "√{}",
    "− {}",
    "{}K",
    "{} K",
    "-{}",
    "−{}",
    "{}x",
    "{}%",
    "{}×",
    "{}/s",
    "{}^n",
    "{}e",
    "a{}",
    "{} ×",
    "±{}",
]


@pytest.mark.parametrize("around", GLUED)
def test_what_touches_a_bound_number_is_found(checker: Checker, around: str) -> None:
    value = re.search(r"<data class=\"k3-value\"[^>]*>[^<]*</data>", checker.html)
    assert value
    page = checker.html.replace(value.group(), around.format(value.group()), 1)
    assert checker.findings(page)


# Pixels, styles and rewritten text: nothing a gate could read a number in.
UNREADABLE = {
    "style with a picture": '<style>p{background:url("data:image/svg+xml,%3Csvg/%3E")}</style>',
    "style with an attribute": "<style>p::after{content:attr(data-x)}</style>",
    "style with a variable": '<style>p{--x:"x"}p::after{content:var(--x)}</style>',
    "style with escapes": '<style>p::after{c\\6fntent:"x"}</style>',
    "style in a choice": "<select><option><style>x</style></option></select>",
    "comment that ends early": "<noscript><!--</noscript>x--></noscript>",
    "raw text": "<xmp><style>x</style></xmp>",
    "drawn by hand": '<svg viewBox="0 0 9 9"><path d="M0 0h5L2 9"/></svg>',
    "icon with more": '<svg><path d="M3 6h18v2H3zm0 5h18v2H3zm0 5h18v2H3z"/><path d="M0 0h5"/></svg>',
    "drawing used again": '<svg><use href="#x"/></svg>',
    "animated": '<svg><text>x<animate attributeName="x" values="x"/></text></svg>',
    "background": '<table background="assets/k3/icon.svg"><tr><td>x</td></tr></table>',
    "picture from above": '<img src="assets/k3/../../x.png" alt="x">',
    "turned round": '<p dir="rtl">x</p>',
    "font": '<font face="Symbol">x</font>',
}


@pytest.mark.parametrize("name", sorted(UNREADABLE))
def test_what_cannot_be_read_is_refused(checker: Checker, name: str) -> None:
    page = checker.plain.replace(END, f"<p>.</p>{UNREADABLE[name]}<p>.</p>{END}", 1)
    assert checker.findings(page)


# Each check of a bound element, switched off, must let its attack through.
CHECKS = {
    "_compare": ("bound value", lambda self, element, *_, **__: self.bound.add(element)),
    "_spec_problem": ("chart title", lambda self, *_: ""),
    "_source": ("quoted code", lambda self, element: self.bound.add(element)),
}


@pytest.mark.parametrize("check", sorted(CHECKS))
def test_no_check_of_bound_elements_is_idle(
    checker: Checker, check: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, mutant = CHECKS[check]
    page = PLACES[place](checker.html, "74")
    assert checker.findings(page)
    if check == "_spec_problem":
        monkeypatch.setattr(_bound, "svg_of", lambda spec: "")
        monkeypatch.setattr(_bound.PageCheck, "_compare", CHECKS["_compare"][1])
    monkeypatch.setattr(_bound.PageCheck, check, mutant)
    assert checker.findings(page) == []


def test_scripts_are_looked_at(checker: Checker, monkeypatch: pytest.MonkeyPatch) -> None:
    page = checker.html.replace("</article>", '<p onclick="x()">x</p></article>', 1)
    assert checker.findings(page)
    monkeypatch.setattr(_scripts, "check_page_scripts", lambda *_: [])
    assert checker.findings(page) == []


FORGED_SPECS = {
    "literal position": {"layer": [{"mark": "rule", "encoding": {"y": {"datum": 74}}}]},
    "literal text": {"layer": [{"mark": {"type": "text", "text": "74"}}]},
    "computed": {"transform": [{"calculate": "datum.wall_s / datum.osl", "as": "wall_s"}]},
    "relabelled": {
        "encoding": {"y": {"field": "wall_s", "axis": {"labelExpr": "datum.value + datum.value"}}}
    },
    "aggregated": {"encoding": {"y": {"field": "wall_s", "aggregate": "sum"}}},
    "fetched": {"data": {"url": "https://example.com/x.json"}},
    "invented": {"data": {"sequence": {"start": 0, "stop": 9}}},
    "format with text": {"encoding": {"y": {"field": "wall_s", "axis": {"format": "7>4"}}}},
    "configured": {"config": {"title": {"fontSize": 9}}},
    "flooded": {"encoding": {"y": {"field": "wall_s", "axis": {"tickCount": 10**9}}}},
    "picture": {"mark": {"type": "image", "url": "x.png"}},
}


@pytest.mark.parametrize("name", sorted(FORGED_SPECS))
def test_a_chart_with_numbers_of_its_own_is_found(checker: Checker, name: str) -> None:
    from tests.report._planted import _spec

    page = _spec(lambda spec, token: spec.update(FORGED_SPECS[name]))(checker.html, "")
    assert any("chart" in finding.what for finding in checker.findings(page))


def test_an_exemption_is_for_one_place_and_one_token(checker: Checker) -> None:
    page = PLACES["paragraph"](checker.html, "74")
    exempt = Exemption("wall-law.html", "p", "74", "a test")
    assert checker.findings(page, exemptions=(exempt,)) == []
    for other in (
        Exemption("index.html", "p", "74", "x"),
        Exemption("wall-law.html", "li", "74", "x"),
        Exemption("wall-law.html", "p", "7", "x"),
    ):
        assert checker.findings(page, exemptions=(other,))


CALM = [
    "freight of eighteenth-century height", "MI325X and MI300X", "p99 of Kimi-K3", "Figure IV", "often, someone, money",
    "a second serve", "a first one", "Figure XII", "CXL and XL", "vi and Xi", "a score of attention", "∑ μ Δt", "naïve", "UTF-8", "int4", "I think", "weighty tenor", "third-party",
]  # fmt: skip


@pytest.mark.parametrize("text", [text for text in CALM if "eighteenth" not in text])
def test_words_that_only_look_like_numbers_pass(checker: Checker, text: str) -> None:
    assert checker.findings(PLACES["paragraph"](checker.html, text)) == []
