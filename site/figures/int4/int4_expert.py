"""How the error grows on its way through an expert."""

from __future__ import annotations

from typing import Any

import altair as alt

STROKES = alt.Legend(symbolType="stroke", symbolStrokeWidth=2)


def figure(rows: list[dict[str, Any]]) -> alt.Chart:
    """A line a rule and source over the stages, in the order in which a token meets them."""
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_line(point=True)
        .encode(
            x=alt.X(
                "stage:N",
                title=None,
                axis=alt.Axis(labelAngle=0),
                sort=alt.EncodingSortField(field="position", op="min"),
            ),
            y=alt.Y("relative_rms:Q", title="Relative RMS error", axis=alt.Axis(format="%")),
            color=alt.Color("rule:N", title="Rule"),
            strokeDash=alt.StrokeDash("source:N", title="Weights", legend=STROKES),
        )
    )
