"""The way of a request from client to reply, and where on it each fault strikes."""

import altair as alt


def figure(rows):
    """A row a fault, a column a place on the way; in the mark the number of probes that notice."""
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X(
            "stage:N",
            title=None,
            sort=None,
            axis=alt.Axis(orient="top", labelAngle=-40, ticks=False, domain=False, grid=True),
        ),
        y=alt.Y(
            "defect:N",
            title=None,
            sort=None,
            axis=alt.Axis(ticks=False, domain=False, grid=True, labelLimit=150),
        ),
    )
    noticed = alt.Scale(domain=["few probes", "most probes"], range=["#b23a48", "#5b7f2b"])
    marks = base.mark_circle(size=330, opacity=1).encode(
        color=alt.Color("noticed:N", title="noticed by", scale=noticed)
    )
    counts = base.mark_text(color="#ffffff", fontSize=10).encode(text="probes:Q")
    return alt.layer(marks, counts).properties(width=alt.Step(62), height=alt.Step(24))
