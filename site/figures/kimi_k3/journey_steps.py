"""The path of one request: a bar a step, from its start to its end, act by act."""

import altair as alt


def figure(rows):
    """Time runs to the right; colour and row are the stage."""
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_bar(height=14)
        .encode(
            x=alt.X("start_s:Q", title="time since the wave was sent, s"),
            x2="end_s:Q",
            y=alt.Y("stage:N", title=None, sort=alt.EncodingSortField(field="position", op="min")),
            color=alt.Color("act:N", title="act", sort=None),
            tooltip=["act:N", "stage:N", "start_s:Q", "end_s:Q", "lasts_s:Q", "tokens:Q"],
        )
        .properties(height=150)
    )
