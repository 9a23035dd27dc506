"""Switches of a figure are refused where a reader would be shown nonsense, and cannot be forged."""

from __future__ import annotations

from typing import Any

import pytest

from k3repro.errors import InputError
from k3repro.report import parse_query
from k3repro.report._switches import switches_of

QUERY = parse_query("q", '-- column platform: {label = "Platform"}\nSELECT 1 ORDER BY 1\n')


def spec(mark: Any = "line", low: float = 1.0, **more: Any) -> dict[str, Any]:
    rows = [
        {"platform": name, "x": low + index, "y": 1.0, "n": index} for index, name in enumerate(["A", "B"])
    ]
    encoding = {"x": {"field": "x", "type": "quantitative"}, "y": {"field": "y", "type": "quantitative"}}
    return {"mark": mark, "encoding": encoding, "datasets": {"rows": rows}, **more}


def test_labels_are_the_querys() -> None:
    made = switches_of(spec(), QUERY, ["filter:platform", "facet:platform", "log:x"], "f")
    assert [item["label"] for item in made] == ["Platform", "Platform", "logarithmic x axis"]


REFUSED = {
    "unknown kind": (spec(), "sort:platform"),
    "no kind": (spec(), "platform"),
    "no such column": (spec(), "filter:nothing"),
    "numbers to choose from": (spec(), "filter:n"),
    "no such axis": (spec(), "log:z"),
    "nought on a logarithm": (spec(low=0.0), "log:x"),
    "below nought": (spec(low=-1.0), "log:x"),
    "bars": (spec("bar"), "log:y"),
    "bars in a layer": ({**spec(), "mark": None, "layer": [{"mark": {"type": "bar"}}]}, "log:y"),
    "composed already": (spec(hconcat=[]), "facet:platform"),
}


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_makes_no_sense_is_refused(name: str) -> None:
    chart, switch = REFUSED[name]
    with pytest.raises(InputError):
        switches_of(chart, QUERY, [switch], "f")


def test_a_range_of_bars_may_be_logarithmic() -> None:
    chart = spec("bar")
    chart["encoding"]["x2"] = {"field": "y"}
    assert switches_of(chart, QUERY, ["log:x"], "f")
