"""Time between tokens against context: lines by KV splits on a GPU, marks as printed."""

from __future__ import annotations

from typing import Any

import altair as alt

from k3repro.relation import INDEPENDENT


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
        color=alt.Color("source:N", title=None),
    )
    printed = alt.FieldEqualPredicate(field="relation", equal=INDEPENDENT)
    lines = (
        base.transform_filter({"not": printed})
        .mark_line()
        .encode(strokeDash=alt.StrokeDash("source:N", title=None))
    )
    marks = base.mark_point(filled=True, size=70, opacity=1).encode(
        shape=alt.Shape("source:N", title=None), tooltip=["source:N", "context:Q", "gap_ms:Q"]
    )
    return (lines + marks).properties(height=360)
