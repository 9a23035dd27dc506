"""Relative RMS error of every rule, by source of weights."""

from __future__ import annotations

from typing import Any

import altair as alt


def figure(rows: list[dict[str, Any]]) -> alt.Chart:
    """One row of points a rule; the source is told by shape and colour."""
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_point(filled=True, size=90)
        .encode(
            x=alt.X("relative_rms:Q", title="Relative RMS error", axis=alt.Axis(format="%")),
            y=alt.Y("rule:N", title=None, sort="-x"),
            color=alt.Color("source:N", title="Weights"),
            shape=alt.Shape("source:N", title="Weights"),
        )
    )
