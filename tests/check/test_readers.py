"""What a reader of each format sees: main content only, tables with spans, front matter, cells, pages."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable

import pytest

from k3repro.check import Checked, Document, read_bytes
from k3repro.errors import InputError

Check = Callable[..., Checked]


def read(text: str, suffix: str = ".md") -> Document:
    return read_bytes(text.encode(), f"x{suffix}", suffix)


def texts(document: Document) -> list[str]:
    return [block.text for block in document.blocks]


def test_front_matter_gives_title_and_summary_and_lines_stay() -> None:
    document = read(
        '---\nlayout: post\ntitle: "2x faster"\nimage: '
        "/a/2025.png\nsummary: How we got 2x.\n---\n\n# Intro\n\nText.\n"
    )
    assert [(b.kind, b.text, b.line) for b in document.blocks] == [
        ("title", "2x faster", 3),
        ("summary", "How we got 2x.", 5),
        ("title", "Intro", 8),
        ("para", "Text.", 10),
    ]


def test_html_reads_the_article_and_nothing_around_it() -> None:
    page = """<html><head><title>T 9</title><style>a{width:50%}</style></head>
    <body><nav>12 posts</nav>
    <article><h1>Head</h1><p style="width:100%">Seen 40&nbsp;ms<sup>2</sup> and
    <script>var a=7</script>more.</p><p hidden>99 ms</p><img alt="3x" width="80%">
    <div class="toc">1. A 2. B</div></article><footer>2024</footer></body></html>"""
    assert texts(read(page, ".html")) == ["T 9", "Head", "Seen 40\xa0ms^2 and more."]


def test_a_table_with_spans_and_two_header_rows() -> None:
    page = """<table><thead><tr><th rowspan=2>Model</th><th colspan=2>Rate (tok/s)</th></tr>
    <tr><th>old</th><th>new</th></tr></thead>
    <tr><td>A</td><td>10</td><td>20</td></tr></table>"""
    (table,) = read(page, ".html").tables
    assert table.heads == 2
    assert [table.header(c) for c in range(3)] == ["Model", "Rate (tok/s) old", "Rate (tok/s) new"]


def test_code_is_no_text_but_output_is() -> None:
    document = read("```python\nx = 12\n```\n\n```\nSuccessful requests: 12\n```\n")
    assert [b.kind for b in document.blocks] == ["code", "output"]


def test_math_footnotes_and_superscripts() -> None:
    document = read("It is $4 \\times 8 = 32$ or 10<sup>6</sup>.[^1]\n\n[^1]: Note 7.\n")
    assert texts(document)[0] == "It is 4 × 8 = 32 or 10^6."


def test_dollars_are_no_math(check: Check) -> None:
    assert texts(read("It costs $0.20 per million tokens and $0.40 later."))[0].count("$") == 2


def test_a_notebook_shows_markdown_and_outputs() -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# T\n", "\n", "TPOT is 40 ms."]},
        {
            "cell_type": "code",
            "source": "x = 77",
            "outputs": [{"output_type": "stream", "text": ["Successful requests: 3\n"]}],
        },
    ]
    document = read(json.dumps({"cells": cells}), ".ipynb")
    assert [(b.kind, b.line) for b in document.blocks] == [("title", 1), ("para", 1), ("output", 2)]
    assert document.unit_of_place == "cell"


def test_docx(check: Check) -> None:
    word = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    body = (
        f'<w:document xmlns:w="{word}"><w:body><w:p><w:r><w:t>TPOT fell from 40 '
        f"ms to 22 ms, a 55% reduction.</w:t></w:r></w:p></w:body></w:document>"
    )
    kinds = (
        '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Default '
        'Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Override '
        'PartName="/word/document.xml" '
        'ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/></Types>'
    )
    links = (
        '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship '
        'Id="r1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" '
        'Target="word/document.xml"/></Relationships>'
    )
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name, text in (
            ("[Content_Types].xml", kinds),
            ("_rels/.rels", links),
            ("word/document.xml", body),
        ):
            archive.writestr(name, text)
    document = read_bytes(data.getvalue(), "x.docx", ".docx")
    assert texts(document) == ["TPOT fell from 40 ms to 22 ms, a 55% reduction."]


def test_decimal_commas_are_seen_from_the_document(check: Check) -> None:
    text = (
        "Der Durchsatz steigt von 1.234,5 tok/s auf 2.469,0 "
        "tok/s (2,00x). Die TPOT ist 12,5 ms, 13,5 ms und 14,5 ms."
    )
    assert read(text).comma_decimals
    assert not read("It is 12.5 ms, 1,234 tok/s and 13.5 ms.").comma_decimals


@pytest.mark.parametrize("suffix", [".pdf", ".docx", ".ipynb"])
def test_what_is_no_such_file_is_refused_in_one_line(suffix: str) -> None:
    with pytest.raises(InputError):
        read_bytes(b"\x00\x01 not this", "x", suffix)


def pdf(*pages: list[tuple[float, float, str]]) -> bytes:
    """A PDF by hand: pages of (x, y, text) in one font."""
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        "",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    kids = []
    for page in pages:
        stream = "\n".join(f"BT /F1 10 Tf {x} {y} Td ({text}) Tj ET" for x, y, text in page)
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents "
            f"{len(objects)} 0 R /Resources << /Font << /F1 3 0 R >> >> >>"
        )
        kids.append(f"{len(objects)} 0 R")
    objects[1] = f"<< /Type /Pages /Kids [{' '.join(kids)}] /Count {len(kids)} >>"
    out, offsets = "%PDF-1.4\n", []
    for number, body in enumerate(objects, start=1):
        offsets.append(len(out))
        out += f"{number} 0 obj\n{body}\nendobj\n"
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    return (
        f"{out}xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}trailer "
        f"<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{len(out)}\n%%EOF"
    ).encode()


def test_a_pdf_is_read_without_warnings_of_its_library(caplog: pytest.LogCaptureFixture) -> None:
    read_bytes(
        pdf([(50, 700, "TPOT fell from 40 ms to 22 ms.")]).replace(b"0000000009", b"x", 1), "x.pdf", ".pdf"
    )
    assert not caplog.records


def test_pdf_lines_become_paragraphs_and_aligned_rows_a_table() -> None:
    first = [
        (50, 700, "TPOT fell from 40 ms to 22 ms,"),
        (50, 688, "a 55% reduc-"),
        (50, 676, "tion in all."),
    ]
    rows = [("Config", "tok/s", "Speedup"), ("base", "1,210", "1.0x"), ("new", "2,401", "1.98x")]
    second = [(50 + 120 * c, 700 - 14 * r, cell) for r, row in enumerate(rows) for c, cell in enumerate(row)]
    document = read_bytes(pdf(first, second), "x.pdf", ".pdf")
    assert document.blocks[0].text == "TPOT fell from 40 ms to 22 ms, a 55% reduction in all."
    (table,) = document.tables
    assert [[c.text for c in row] for row in table.grid] == [list(row) for row in rows]
    assert table.line == 2 and document.unit_of_place == "page"
