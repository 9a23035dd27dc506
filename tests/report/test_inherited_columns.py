"""A query's header inherits what the table declares of a column."""

from __future__ import annotations

from pathlib import Path

import pytest

from k3repro.errors import GateFailed
from k3repro.report import Sources
from k3repro.report._queries import parse_query
from k3repro.store import Column, Schema, Store, Table

SCHEMA = Schema((Table("walls", (
    Column("osl", "INT64", unit="tokens", doc="reply length"), Column("wall_s", "DOUBLE", unit="s"),
), key=("osl",)),))  # fmt: skip


def sources(tmp_path: Path, header: str = "") -> Sources:
    store = Store(tmp_path)
    store.transcribe("timed", "t", {"document": "d"}, SCHEMA, [{"osl": 16, "wall_s": 2.0}])
    text = f"{header}SELECT seal, osl, wall_s, 2 * wall_s AS other FROM timed_walls ORDER BY osl"
    return Sources(store.catalog(), {"q": parse_query("q", text)})


def test_unit_and_description_come_from_the_table(tmp_path: Path) -> None:
    query = sources(tmp_path).result("q").query
    assert (query.column("osl").unit, query.column("osl").about) == ("tokens", "reply length")
    assert query.column("wall_s").unit == "s" and query.column("wall_s").label == "wall s"
    assert query.column("other").unit == ""


def test_a_header_line_wins(tmp_path: Path) -> None:
    query = sources(tmp_path, '-- column osl: {label = "Reply", unit = "words"}\n').result("q").query
    assert (query.column("osl").label, query.column("osl").unit) == ("Reply", "words")
    assert query.column("wall_s").unit == "s"


def test_a_header_may_not_contradict_the_unit_in_a_name(tmp_path: Path) -> None:
    with pytest.raises(GateFailed, match="said to be in min"):
        sources(tmp_path, '-- column wall_s: {label = "Wall", unit = "min"}\n').result("q")
