"""Published total rates beside the simulated node."""

import altair as alt


def figure(rows):
    """A published point above the roofline is a point no engine can reach."""
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_line(point=True)
        .encode(
            x=alt.X("concurrency:Q", title="concurrency", scale=alt.Scale(type="log")),
            y=alt.Y("rate:Q", title="total rate (tokens/s)", scale=alt.Scale(type="log")),
            color=alt.Color("source:N", title="rate"),
            shape=alt.Shape("source:N", title="rate"),
            detail="series:N",
            tooltip=["series:N", "concurrency:Q", "source:N", "rate:Q"],
        )
    )
