"""Terms are explained once a page, in running text only, and never with a number."""

from __future__ import annotations

from pathlib import Path

import pytest

from k3repro.errors import InputError
from k3repro.report._glossary import Term, glossary_html, load_glossary, mark_terms
from k3repro.report._grammar import Grammar

TERMS = [Term("wave", "Requests sent together."), Term("KV pool", "Memory of requests.", ("KV cache",))]


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ("<p>A wave of a wave.</p>", '<p>A <abbr title="Requests sent together.">wave</abbr> of a wave.</p>'),
        ("<p>Two waves.</p>", '<p>Two <abbr title="Requests sent together.">waves</abbr>.</p>'),
        ("<p><code>wave</code></p>", "<p><code>wave</code></p>"),
        ('<p><data class="k3-value">wave</data></p>', '<p><data class="k3-value">wave</data></p>'),
        ('<ul data-query="q"><ul></ul><li>wave</li></ul>', '<ul data-query="q"><ul></ul><li>wave</li></ul>'),
        ("<p>microwave, wave-like</p>", None),
    ],
)
def test_the_first_place_in_running_text_is_marked(text: str, marked: str | None) -> None:
    html = f"<nav>wave</nav><article>{text}</article><footer>wave</footer>"
    got = mark_terms(html, TERMS)
    if marked is None:
        assert got.count("<abbr") == 1 and "micro<abbr" not in got
    else:
        assert got == html.replace(text, marked)


def test_a_term_inside_another_is_not_marked_in_its_mark() -> None:
    terms = [Term("KV pool", "The pool of a wave."), Term("pool", "Memory."), Term("wave", "Requests.")]
    got = mark_terms("<article><p>The KV pool.</p></article>", terms)
    assert got.count("<abbr") == 1 and 'title="The pool of a wave."' in got


@pytest.mark.parametrize(
    "text",
    [
        '[[term]]\nname = "x"\nsays = "It takes 74 ms."',
        '[[term]]\nname = "x"\nsays = "a"\n[[term]]\nname = "x"\nsays = "b"',
        '[[term]]\nname = "x"',
        "term = 1",
    ],
)
def test_a_glossary_that_cannot_stand_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "glossary.toml").write_text(text)
    with pytest.raises(InputError):
        load_glossary(tmp_path, Grammar(frozenset()))


def test_the_page_lists_other_names() -> None:
    assert "Also: KV cache." in glossary_html(TERMS)
