"""Errors of the twin in every held-out cell, by regime."""

import altair as alt


def figure(rows):
    """A mark a cell: left of the middle the twin is too small, right of it too large."""
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_point(filled=True, size=70, opacity=0.8)
        .encode(
            x=alt.X("error:Q", title="twin over printed, less one", axis=alt.Axis(format="%")),
            y=alt.Y("regime:N", title=None),
            color=alt.Color("platform:N", title="platform"),
            shape=alt.Shape("platform:N", title="platform"),
            tooltip=["source:N", "cell:N", "quantity:N", "platform:N", "error:Q"],
        )
        .properties(height=180)
    )
