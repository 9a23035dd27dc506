"""Output rate by request shape and platform, printed beside the twin."""

import altair as alt


def figure(rows):
    """Bars side by side; a row of charts a shape, so that one large rate does not hide the rest."""
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_bar()
        .encode(
            x=alt.X("out_rate:Q", title="output rate, tokens/s"),
            y=alt.Y("source:N", title=None),
            color=alt.Color("platform:N", title="platform"),
            yOffset=alt.YOffset("platform:N"),
            tooltip=["class:N", "platform:N", "source:N", "out_rate:Q", "total_rate:Q"],
        )
        .properties(height=70, width=460)
        .facet(
            row=alt.Row(
                "class:N",
                title=None,
                sort=alt.EncodingSortField(field="isl", op="min"),
                header=alt.Header(labelAngle=0, labelAlign="left", labelOrient="top"),
            )
        )
    )
