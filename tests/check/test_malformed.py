"""A thousand broken documents: an error of ours or a result, never a traceback."""

from __future__ import annotations

import json
import random

import pytest
from test_readers import pdf

from k3repro.check import annotated, as_json, check_document, explain, lines, read_bytes, sarif
from k3repro.errors import InputError

MARKDOWN = (
    "---\ntitle: 2x\n---\n# T\n\nFrom 40 ms to 22 ms (45%). $4 \\times "
    "8 = 32$ `cc/8 + 1`[^1]\n\n| A | tok/s | x |\n|---|---|---|\n"
    "| a | 1,000 | 1.0x |\n| b | 2,000 | 2.0x |\n| **Total** | 3,000 "
    "| |\n\n- a\n- b\n\n<table><tr><td colspan=2>1</td></tr></table>\n"
)
HTML = (
    "<html><body><article><h1>T</h1><table><tr><th "
    "rowspan=3>1x</th><td>2%</td></tr></table><p>40 ms</p></article></body></html>"
)
NOTEBOOK = json.dumps(
    {
        "cells": [
            {"cell_type": "markdown", "source": MARKDOWN},
            {"cell_type": "code", "outputs": [{"text": "1"}]},
        ]
    }
)
SEEDS = [
    (".md", MARKDOWN.encode()),
    (".html", HTML.encode()),
    (".ipynb", NOTEBOOK.encode()),
    (".txt", MARKDOWN.encode()),
    (".pdf", pdf([(50, 700, "40 ms to 22 ms")])),
]
PIECES = [
    b"\x00",
    b"<",
    b"|",
    b"\xff\xfe",
    b"<table>",
    b"10^99",
    b"1e999",
    b"%",
    b"-" * 50,
    b"9" * 400,
    b"0x",
    b"$",
    b"\xe2\x80\x8b",
    b"]]>",
    b"&#xD800;",
    b"((((",
    b"|:-:|",
    b"1,2,3,4",
    b"rowspan=999999",
    b"\r",
    b"/ 0",
]


def broken(data: bytes, source: random.Random) -> bytes:
    """Cut, repeat, overwrite or fill in at a few places."""
    out = bytearray(data)
    for _ in range(source.randint(1, 6)):
        at = source.randrange(len(out) + 1)
        act = source.randrange(4)
        if act == 0:
            out[at : at + source.randint(1, 40)] = b""
        elif act == 1:
            out[at:at] = source.choice(PIECES) * source.randint(1, 4)
        elif act == 2:
            out[at:at] = out[at : at + source.randint(1, 80)]
        else:
            out[at : at + 1] = bytes([source.randrange(256)])
    return bytes(out)


@pytest.mark.parametrize("seed", range(10))
def test_broken_documents_end_in_a_result_or_an_error_of_ours(seed: int) -> None:
    source = random.Random(seed)
    for _ in range(100):
        suffix, data = source.choice(SEEDS)
        try:
            document = read_bytes(broken(data, source), f"x{suffix}", suffix)
        except InputError:
            continue
        checked = check_document(document)
        json.dumps(as_json(checked), allow_nan=False)
        sarif([checked])
        annotated(checked)
        list(lines(checked))
        for relation in checked.relations[:3]:
            list(explain(relation, document))


@pytest.mark.parametrize(
    "text",
    [
        "x " * 5,
        "<div>" * 3000,
        "> " * 2000 + "1",
        "| a |\n|---|\n" + "| 1 |\n" * 3000,
        "1 × " * 3000,
        "from " * 3000 + "1 ms to 2 ms",
        "(" * 5000 + "1x",
        "1" * 20000,
        "- " * 3000,
    ],
)
def test_deep_and_long_documents(text: str) -> None:
    for suffix in (".md", ".html", ".txt"):
        check_document(read_bytes(text.encode(), f"x{suffix}", suffix))
