# ruff: noqa: E501
"""The search of the pages, run as it ships: numbers in any notation, other names, chapters above claims."""

from __future__ import annotations

import json
import shutil
import subprocess
from importlib import resources
from typing import Any

import pytest

NODE = shutil.which("node")
PAGE, SECTION, TABLE, CLAIM, TERM, FINDING = range(6)
ENTRIES = [
    [PAGE, "latency.html", "How long until the first token?", "", "First-token time against load."],
    [PAGE, "int4.html", "What does int4 cost?", "", "Rules and their errors."],
    [SECTION, "int4.html#by-rule", "What does int4 cost?", "By rule", "The first costs 10.28% relative RMS."],
    [PAGE, "envelope.html", "How fast, at how many users?", "", "Output rate in tokens/s."],
    [PAGE, "claims/a/knee.html", "What sets the knee", "", "Claims about 35,000 sequences."],
    [CLAIM, "claims/a/knee.html#max", "What sets the knee", "sequences the pool could hold", "prints about 35,000"],
    [PAGE, "capacity.html", "How many requests fit?", "", "Printed are 35,000 sequences; contexts up to 1,000,000 tokens."],
    [FINDING, "index.html#short", "Can they be trusted?", "The pool does not hold that many", "printed 35,000 in whole blocks 1,000"],
    [PAGE, "size.html", "Size your cluster", "", "Nodes for a number of users, at a context and a price."],
    [SECTION, "size.html#wave", "Size your cluster", "A wave", "Some 1,000 filler words stand here before what counts, so that the piece which is shown has to be cut out of a longer text with some words left: at 200K context 100 users wait, and 100 more do."],
    [PAGE, "about/glossary.html", "Glossary", "", "Words of the trade."],
    [TERM, "about/glossary.html#term-ttft", "Glossary", "TTFT", "Time. Also: time to first token; first-token time."],
    [TERM, "about/glossary.html#term-tokens-s", "Glossary", "tokens/s", "Rate. Also: tokens per second."],
]  # fmt: skip


def run(program: str) -> Any:
    """What an expression over the search `k3Find` and these entries `e` gives."""
    path = resources.files("k3repro.report").joinpath("assets/k3-search.js")
    whole = (
        f"require({json.dumps(str(path))});const e=k3Find.read({json.dumps(ENTRIES)});"
        f"console.log(JSON.stringify({program}))"
    )
    done = subprocess.run([str(NODE), "-e", whole], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def found(text: str) -> list[str]:
    addresses: list[str] = run(f"k3Find.search(e,k3Find.names(e),{json.dumps(text)}).map(x=>x.address)")
    return addresses


@pytest.mark.skipif(NODE is None, reason="node is not installed")
@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("35,000", "index.html#short"),
        ("35000", "index.html#short"),
        ("35k", "index.html#short"),
        ("35,000 sequences", "capacity.html"),
        ("10.28", "int4.html#by-rule"),
        ("1M", "capacity.html"),
        ("TTFT", "latency.html"),
        ("time to first token", "latency.html"),
        ("tokens per second", "envelope.html"),
        ("glossary", "about/glossary.html"),
        ("knee pool", "claims/a/knee.html#max"),
        ("How many nodes do I need for my users?", "size.html"),
        ("what is the price of serving a user", "size.html"),
        ("which rule has the smallest relative error", "int4.html"),
        ("100 users", "size.html#wave"),
    ],
)
def test_the_right_place_comes_first(text: str, first: str) -> None:
    assert found(text)[0] == first


@pytest.mark.skipif(NODE is None, reason="node is not installed")
@pytest.mark.parametrize("text", ["", "  ", "10.2", "351", "zebra"])
def test_what_no_page_says_is_not_found(text: str) -> None:
    assert found(text) == []


@pytest.mark.skipif(NODE is None, reason="node is not installed")
def test_the_excerpt_shows_what_was_asked_and_marks_it() -> None:
    pieces = run("k3Find.excerpt(e,e.find(x=>x.address==='size.html#wave'),'100 users')")
    assert [text for text, hit in pieces if hit] == ["100", "users", "100"]
    assert "".join(text for text, _ in pieces).startswith("… left: at 200K context 100 users wait")
    assert not any(hit for _, hit in run("k3Find.excerpt(e,e[0],'zebra')"))


@pytest.mark.skipif(NODE is None, reason="node is not installed")
def test_words_that_stand_side_by_side_are_quoted_before_the_same_words_apart() -> None:
    prose = (
        "one user asks, short, and 100 more cells follow "
        + "that fill the line " * 12
        + "then 100 users at 200K"
    )
    pieces = run(f"k3Find.excerpt(e,{{prose:{json.dumps(prose)}}},'100 users')")
    assert "".join(text for text, _ in pieces).endswith("100 users at 200K")
