"""Errors of the twin in every held-out cell, by regime."""

import altair as alt


def figure(rows):
    """A mark a cell: left of the middle the twin is too small, right of it too large."""
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_point(filled=True, size=70, opacity=0.8)
        .encode(
            x=alt.X(
                "error:Q",
                title=["error of the simulation", "left: too small, right: too large"],
                scale=alt.Scale(type="symlog", constant=0.1),
                axis=alt.Axis(format="%", values=[-0.9, -0.5, -0.2, 0, 0.2, 0.5, 1, 2, 4]),
            ),
            y=alt.Y("source:N", title=None),
            color=alt.Color("platform:N", title="platform"),
            shape=alt.Shape("platform:N", title="platform"),
            tooltip=["source:N", "cell:N", "quantity:N", "platform:N", "error:Q"],
        )
        .properties(width=620, height=alt.Step(34))
    )
