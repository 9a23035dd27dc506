"""Requests that fit against context, by law and platform."""

from __future__ import annotations

from typing import Any

import altair as alt


def figure(rows: list[dict[str, Any]]) -> alt.Chart:
    """One line per law, dashed by law and coloured by platform."""
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_line(point=True)
        .encode(
            x=alt.X(
                "context_tokens:Q",
                title="Context (tokens)",
                scale=alt.Scale(type="log"),
                axis=alt.Axis(format="~s"),
            ),
            y=alt.Y(
                "requests:Q",
                title="Requests that fit",
                scale=alt.Scale(type="log"),
                axis=alt.Axis(format="~s"),
            ),
            color=alt.Color("platform:N", title="Platform"),
            strokeDash=alt.StrokeDash("law:N", title="Law"),
            shape=alt.Shape("law:N", title="Law"),
        )
    )
