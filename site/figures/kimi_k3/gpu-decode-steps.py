"""Time between tokens against context: lines by KV splits on a GPU, marks as printed."""

from __future__ import annotations

from typing import Any

import altair as alt

from k3repro.relation import INDEPENDENT

COLUMNS = alt.Legend(columns=2)


def figure(rows: list[dict[str, Any]]) -> alt.LayerChart:
    """Lines for what was measured, filled marks for printed rows."""
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X(
            "context:Q",
            title="Resident tokens, longest sequence",
            scale=alt.Scale(type="log", nice=False, padding=12),
            axis=alt.Axis(format="~s"),
        ),
        y=alt.Y(
            "gap_ms:Q",
            title="Between tokens (ms)",
            scale=alt.Scale(type="log", nice=False, padding=12),
            axis=alt.Axis(format="~s"),
        ),
        color=alt.Color("source:N", title=None, legend=COLUMNS),
        strokeDash=alt.StrokeDash("source:N", title=None, legend=COLUMNS),
        tooltip=["source:N", "context:Q", "gap_ms:Q"],
    )
    printed = alt.FieldEqualPredicate(field="relation", equal=INDEPENDENT)
    lines = base.transform_filter({"not": printed}).mark_line(point=True)
    marks = base.transform_filter(printed).mark_point(filled=True, shape="diamond", size=110, opacity=1)
    return (lines + marks).properties(height=360)
