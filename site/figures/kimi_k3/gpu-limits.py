"""Requests of one length on one lane: two laws as lines, what ran together as marks."""

from __future__ import annotations

from typing import Any

import altair as alt


def figure(rows: list[dict[str, Any]]) -> alt.LayerChart:
    """Both axes logarithmic; colour is the pool."""
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X(
            "context:Q",
            title="Context (tokens)",
            scale=alt.Scale(type="log", nice=False, padding=12),
            axis=alt.Axis(format="~s"),
        ),
        y=alt.Y(
            "requests:Q",
            title="Requests that run together",
            scale=alt.Scale(type="log", nice=False, padding=12),
            axis=alt.Axis(format="~s"),
        ),
        color=alt.Color("pool:N", title="Pool"),
        tooltip=["pool:N", "series:N", "context:Q", "requests:Q"],
    )
    laws = base.transform_filter(alt.FieldEqualPredicate(field="kind", equal="law"))
    ran = base.transform_filter(alt.FieldEqualPredicate(field="kind", equal="measured"))
    lines = laws.mark_line().encode(strokeDash=alt.StrokeDash("series:N", title="By law"))
    marks = ran.mark_point(filled=True, size=90).encode(shape=alt.Shape("series:N", title="On a GPU"))
    return (lines + marks).properties(height=340)
