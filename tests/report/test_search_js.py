# ruff: noqa: E501
"""The search of the pages, run as it ships: numbers in any notation, other names, chapters above claims."""

from __future__ import annotations

import json
import shutil
import subprocess
from importlib import resources

import pytest

NODE = shutil.which("node")
PAGE, SECTION, TABLE, CLAIM, TERM = range(5)
ENTRIES = [
    [PAGE, "latency.html", "How long until the first token?", "", "First-token time against load."],
    [PAGE, "int4.html", "What does int4 cost?", "", "Rules and their errors."],
    [SECTION, "int4.html#by-rule", "What does int4 cost?", "By rule", "The first costs 10.28% relative RMS."],
    [PAGE, "envelope.html", "How fast, at how many users?", "", "Output rate in tokens/s."],
    [PAGE, "claims/a/knee.html", "What sets the knee", "", "Claims about 35,000 sequences."],
    [CLAIM, "claims/a/knee.html#max", "What sets the knee", "sequences the pool could hold", "prints about 35,000"],
    [PAGE, "capacity.html", "How many requests fit?", "", "Printed are 35,000 sequences; contexts up to 1,000,000 tokens."],
    [PAGE, "about/glossary.html", "Glossary", "", "Words of the trade."],
    [TERM, "about/glossary.html#term-ttft", "Glossary", "TTFT", "Time. Also: time to first token; first-token time."],
    [TERM, "about/glossary.html#term-tokens-s", "Glossary", "tokens/s", "Rate. Also: tokens per second."],
]  # fmt: skip


def found(text: str) -> list[str]:
    path = resources.files("k3repro.report").joinpath("assets/k3-search.js")
    program = (
        f"require({json.dumps(str(path))});const e=k3Find.read({json.dumps(ENTRIES)});"
        f"console.log(JSON.stringify(k3Find.search(e,k3Find.names(e),{json.dumps(text)}).map(x=>x.address)))"
    )
    done = subprocess.run([str(NODE), "-e", program], capture_output=True, text=True, check=True)
    addresses: list[str] = json.loads(done.stdout)
    return addresses


@pytest.mark.skipif(NODE is None, reason="node is not installed")
@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("35,000", "capacity.html"),
        ("35000", "capacity.html"),
        ("35k", "capacity.html"),
        ("10.28", "int4.html#by-rule"),
        ("1M", "capacity.html"),
        ("TTFT", "latency.html"),
        ("time to first token", "latency.html"),
        ("tokens per second", "envelope.html"),
        ("glossary", "about/glossary.html"),
        ("knee pool", "claims/a/knee.html#max"),
    ],
)
def test_the_right_place_comes_first(text: str, first: str) -> None:
    assert found(text)[0] == first


@pytest.mark.skipif(NODE is None, reason="node is not installed")
@pytest.mark.parametrize("text", ["", "  ", "10.2", "351", "zebra"])
def test_what_no_page_says_is_not_found(text: str) -> None:
    assert found(text) == []
