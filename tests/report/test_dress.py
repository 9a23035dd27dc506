"""Colours that mean the same everywhere, and tooltips that say label, unit and format."""

from __future__ import annotations

import json
from importlib import resources

import altair as alt

from k3repro.report._dress import COLOURS, DARK, dress, palette_css
from k3repro.report._figures import own_ids
from k3repro.report._queries import parse_query

QUERY = parse_query(
    "q",
    """-- column wall_s: {label = "Wall time", unit = "s", format = ".2f"}
-- column low: {label = "low (95 %)", unit = "ms"}
-- column osl: {label = "Reply length", unit = "tokens"}
SELECT seal, platform, wall_s, low, osl FROM t ORDER BY osl""",
)
ROWS = [
    {"platform": platform, "wall_s": 1.5, "low": 0.25, "osl": 16, "kind": "a"}
    for platform in ("MI300X", "MI325X")
]


def dressed(**encoding: object) -> dict:
    chart = alt.Chart(alt.Data(values=ROWS)).mark_point().encode(**encoding).to_dict()
    dress(chart, QUERY, ROWS)
    return chart["encoding"]


def test_platforms_have_one_colour_each_in_one_order() -> None:
    scale = dressed(x="osl:Q", color="platform:N")["color"]["scale"]
    assert scale == {"domain": ["MI325X", "MI300X"], "range": [COLOURS["MI325X"], COLOURS["MI300X"]]}


def test_shapes_follow_the_order_of_the_colours_so_that_one_legend_holds_both() -> None:
    encoding = dressed(x="osl:Q", color="platform:N", shape="platform:N")
    assert encoding["shape"]["scale"] == {"domain": encoding["color"]["scale"]["domain"]}


def test_a_column_without_a_meaning_keeps_the_theme() -> None:
    assert "scale" not in dressed(x="osl:Q", color="kind:N")["color"]


def test_tooltips_say_label_unit_and_format() -> None:
    tips = dressed(x="osl:Q", y="wall_s:Q", y2="low:Q", color="platform:N")["tooltip"]
    said = {tip["field"]: (tip["title"], tip.get("format")) for tip in tips}
    assert said["osl"] == ("Reply length (tokens)", ",d")
    assert said["wall_s"] == ("Wall time (s)", ",.2f")
    assert said["low"] == ("low (ms)", ",.3~r")
    assert said["platform"] == ("platform", None)


def test_a_tooltip_of_the_figure_is_completed_and_not_replaced() -> None:
    (tip,) = dressed(x="osl:Q", tooltip=[alt.Tooltip("wall_s:Q", title="takes")])["tooltip"]
    assert tip == {"field": "wall_s", "type": "quantitative", "title": "takes", "format": ",.2f"}


def test_every_colour_has_a_counterpart_on_dark_pages() -> None:
    theme = json.loads(
        resources.files("k3repro.report").joinpath("assets/vega-theme.json").read_text("utf-8")
    )
    assert set(theme["range"]["category"]) | set(COLOURS.values()) <= set(DARK)
    assert palette_css().count("fill:") == palette_css().count("stroke:") == len(DARK)


def test_what_was_drawn_before_changes_no_drawing() -> None:
    first, later = (
        f'<clipPath id="clip{number}"/><g clip-path="url(#clip{number})"/><clipPath id="clip{number + 1}"/>'
        for number in (1, 9)
    )
    assert own_ids(first, "a1b2") == own_ids(later, "a1b2")
    assert own_ids(first, "a1b2").count("a1b2-clip0") == 2 and "a1b2-clip1" in own_ids(first, "a1b2")
