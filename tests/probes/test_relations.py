"""What the pages call held-out must really not have been used to set the twin."""

from __future__ import annotations

import re
from pathlib import Path

from k3repro.twin import platform_sources

QUERIES = Path(__file__).parents[2] / "site" / "queries" / "kimi_k3"


def test_the_twin_was_set_on_the_rows_the_queries_call_in_sample_and_no_others() -> None:
    """A new source in platforms.toml has to change the relations in envelope-pairs.sql and its kin first."""
    used = {
        text
        for name in ("mi300x", "mi325x")
        for text in platform_sources(name).values()
        if "in-sample" in text
    }
    places = {match for text in used for match in re.findall(r"Table \d|wall law|Figure \d", text)}
    assert places <= {"Table 3", "Table 4", "wall law", "Figure 5"}
    table_4 = {text for text in used if "Table 4" in text}
    assert all("concurrency 32 at MAX_NUM_SEQS 8" in text for text in table_4)


def test_no_difference_is_computed_for_an_in_sample_row() -> None:
    for name in ("envelope-pairs", "slots-pairs"):
        text = (QUERIES / f"{name}.sql").read_text(encoding="utf-8")
        guards = re.findall(r"CASE WHEN (.+?) THEN 'in-sample'", text)
        assert guards and "difference" in text
