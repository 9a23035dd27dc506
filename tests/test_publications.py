"""Transcriptions: the printed cell is kept, its numeral is the value, and no cell is invented."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3repro.errors import InputError
from k3repro.publications import numeral, read_publication

ROOT = Path(__file__).parents[1] / "artifacts" / "publications"
FILES = sorted(ROOT.glob("*/*.toml"))


@pytest.mark.parametrize(
    ("printed", "value"),
    [
        ("0.97 s", "0.97"), ("1,388", "1388"), ("−43 GiB", "-43"), ("-43", "-43"), ("~10 GiB", "10"),
        ("5.1x", "5.1"), ("900K", "900000"), ("1M", "1000000"), ("512Ki", "524288"), ("85%", "85"),
        ("456 (plateau, +13%)", "456"), ("64 (stall)", "64"), ("1800 cap", "1800"), ("74 ms/token", "74"),
        ("2,836,158", "2836158"), ("3/8", "3"), ("235B", "235000000000"), ("1T", "1000000000000"),
    ],
)  # fmt: skip
def test_the_numeral_of_a_cell(printed: str, value: str) -> None:
    assert numeral(printed) == Decimal(value)


@pytest.mark.parametrize(
    "printed", ["none reached", "none", "stall", "recorded", "not run", "6 to 8 GiB", "85 to 99%", "cap", ""]
)
def test_words_and_ranges_have_no_numeral(printed: str) -> None:
    assert numeral(printed) is None


@given(
    st.decimals(min_value=0, max_value=10**9, places=3), st.sampled_from(["", " s", "%", "x", " ms/token"])
)
def test_any_printed_number_comes_back_exactly(value: Decimal, unit: str) -> None:
    assert numeral(f"{value:,f}{unit}") == value
    assert numeral(f"{value:f}{unit}") == value


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_row_has_a_locator_a_unique_key_and_keeps_its_text(path: Path) -> None:
    publication = read_publication(path)
    assert len(publication.sha256) == 64
    for table in publication.tables:
        rows = table.rows()
        keys = [tuple(row[name] for name in table.key) for row in rows]
        assert len(set(keys)) == len(rows) and None not in {cell for key in keys for cell in key}
        for cells, row in zip(table.cells, rows, strict=True):
            assert row["locator"].startswith(table.locator)
            printed = {row.get(f"{c.name}_printed", row[c.name]) for c in table.columns}
            assert {
                text for text, c in zip(cells, table.columns, strict=True) if c.name not in table.key
            } <= printed


def test_published_table_3_is_complete() -> None:
    publication = read_publication(ROOT / "kimi_k3" / "amd-di-kimi-k3.toml")
    latency = next(table for table in publication.tables if table.name == "latency")
    assert [row["ttft_p99_s"] for row in latency.rows()] == [1.2, 2.2, 3.2, 6.4, 11.1, 19.9]


def test_artifacts_hold_at_most_five_tables() -> None:
    for path in FILES:
        for tables in read_publication(path).artifacts().values():
            assert len(tables) <= 5


def test_bad_files_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such transcription"):
        read_publication(tmp_path / "absent.toml")
    path = tmp_path / "short.toml"
    head = '[publication]\nid="x"\ndocument="d"\ndate="2026-01-01"\nsha256="0"\n'
    table = '[[table]]\nartifact="a"\nname="t"\nlocator="l"\ndoc="d"\nkey=["p"]\n'
    table += 'columns=[{name="p",printed_as="P"}]\n'
    path.write_text(f'{head}{table}rows=[["a","b"]]\n')
    with pytest.raises(InputError, match="2 cells, not 1"):
        read_publication(path)
    path.write_text("[publication\n")
    with pytest.raises(InputError, match="not valid TOML"):
        read_publication(path)
