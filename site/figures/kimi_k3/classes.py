"""Output rate by request shape and platform, printed beside the twin."""

import altair as alt


def figure(rows):
    """A pair of bars per shape and source, in the order of prompt length."""
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_bar()
        .encode(
            x=alt.X("out_rate:Q", title="output rate, tokens/s"),
            y=alt.Y("label:N", title=None, sort=alt.EncodingSortField(field="isl", op="min")),
            color=alt.Color("platform:N", title="platform"),
            yOffset=alt.YOffset("platform:N"),
            tooltip=["class:N", "platform:N", "source:N", "out_rate:Q", "total_rate:Q"],
        )
        .properties(height=220)
    )
