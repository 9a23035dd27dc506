"""Printed predictions against printed measurements."""

import altair as alt


def figure(rows):
    """How far each measurement lies above its prediction."""
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_bar()
        .encode(
            x=alt.X("above:Q", title="above the prediction by", axis=alt.Axis(format="%")),
            y=alt.Y("check:N", title=None),
            yOffset=alt.YOffset("platform:N"),
            color=alt.Color("platform:N", title="platform"),
            tooltip=["check:N", "platform:N", "predicted:Q", "observed:Q", "above:Q"],
        )
        .properties(height=120)
    )
