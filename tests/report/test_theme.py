# ruff: noqa: E501
"""The theme's rules that the pages can meet are kept, all others are not, and a sheet of somebody else is found."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from k3repro.report import _theme
from k3repro.report._theme import THEME, theme_css, tokens_of

PAGE = '<html class="no-js"><body dir="ltr" data-md-color-scheme="slate"><p class="md-typeset admonition note">x</p>'
RULES = """@charset "utf-8";:root{--used:url("data:x;y");--idle:url("data:image/svg+xml,<svg d='m(1;2)'/>");--nested:var(--used)}
.md-typeset p{color:red}.md-typeset .gone{color:blue}.gone,.md-typeset em{margin:0}.md-typeset:not(.gone) b{top:0}
[dir=rtl] p{left:0}[dir=ltr] p{left:1px}.md-typeset :is(.gone,.md-typeset) i{top:1px}.md-typeset :is(.gone,.lost) i{top:2px}
@media print{.gone{display:none}}@media screen{.md-typeset u{color:var(--used)}}a[href^="#gone"]{top:3px}
@keyframes idle{0%{top:0}to{top:1px}}@keyframes moves{0%{top:0}}.md-typeset s{animation:moves 1s}"""


@pytest.fixture
def sheet(monkeypatch: pytest.MonkeyPatch) -> str:
    import tinycss2

    parsed = tinycss2.parse_stylesheet(RULES, skip_comments=True, skip_whitespace=True)
    monkeypatch.setattr(_theme, "_rules", lambda: parsed)
    theme_css.cache_clear()
    made = theme_css(frozenset(tokens_of(PAGE)))
    theme_css.cache_clear()
    return made


def test_what_a_page_names_is_what_a_rule_can_meet() -> None:
    assert tokens_of(PAGE) == {"no-js", "ltr", "slate", "md-typeset", "admonition", "note"}


def test_rules_and_selectors_that_meet_nothing_are_dropped(sheet: str) -> None:
    assert ".md-typeset p{color:red}" in sheet and ".md-typeset em{margin:0}" in sheet
    assert ".md-typeset:not(.gone) b" in sheet and '[href^="#gone"]' in sheet, (
        "what is excluded need not exist"
    )
    assert "[dir=ltr]" in sheet and "rtl" not in sheet and "@media print" not in sheet
    assert "{top:1px}" in sheet and "{top:2px}" not in sheet and "color:blue" not in sheet


def test_names_that_nothing_reads_are_dropped(sheet: str) -> None:
    assert '--used:url("data:x;y")' in sheet and "--idle" not in sheet and "--nested" not in sheet
    assert "@keyframes moves" in sheet and "idle" not in sheet


def test_the_theme_of_a_site_styles_every_class_of_its_pages(built: Path) -> None:
    """A class that the whole theme styles is styled in what ships, in as many rules."""
    shipped = (built / THEME).read_text("utf-8")
    tokens = {word for path in built.rglob("*.html") for word in tokens_of(path.read_text("utf-8"))}
    whole = theme_css(frozenset(re.findall(r"[\w-]+", "".join(rule.serialize() for rule in _theme._rules()))))
    assert len(shipped) < len(whole) / 2
    styled = {
        word
        for word in tokens
        if not word[0].isdigit() and re.search(rf"\.{re.escape(word)}(?![\w-])", whole)
    }
    missing = [word for word in styled if not re.search(rf"\.{re.escape(word)}(?![\w-])", shipped)]
    assert len(styled) > 30 and missing == []
