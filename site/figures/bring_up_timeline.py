"""Where the time of a bring-up goes: one bar a step, in order."""

import altair as alt


def figure(rows):
    """A bar reaches from one event to the next."""
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_bar()
        .encode(
            x=alt.X("at_s:Q", title="Time since the start (s)"),
            x2="until_s:Q",
            y=alt.Y("phase:N", title="phase", sort=alt.EncodingSortField("step", op="min")),
            tooltip=["phase:N", "what:N", "at_s:Q"],
        )
    )
