"""Phases of requests as bars over time, a row a request."""

import altair as alt


def figure(rows):
    """Colour is the phase; the tooltip names lane and tokens."""
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_bar()
        .encode(
            x=alt.X("start_s:Q", title="time since the wave was sent, s"),
            x2="end_s:Q",
            y=alt.Y("request:O", title="request"),
            color=alt.Color("phase:N", title=None),
            tooltip=["request:O", "lane:O", "phase:N", "start_s:Q", "end_s:Q", "tokens:Q"],
        )
        .properties(width=560, height=alt.Step(14))
    )
