"""The path of one request: a bar a step, from its start to its end, act by act."""

import altair as alt


def figure(rows):
    """Time runs to the right; a row is where the request is, and its duration stands at the end."""
    base = alt.Chart(alt.Data(values=rows)).encode(
        y=alt.Y(
            "stage:N",
            title=None,
            sort=alt.EncodingSortField(field="position", op="min"),
            axis=alt.Axis(labelLimit=170, ticks=False, domain=False),
        ),
    )
    bars = base.mark_bar(height=16, strokeWidth=2).encode(
        x=alt.X("start_s:Q", title="time since the wave was sent, s"),
        x2="end_s:Q",
        color=alt.Color("act:N", title=None, sort=None),
        stroke=alt.Stroke("act:N", title=None, sort=None),
        tooltip=["act:N", "stage:N", "start_s:Q", "end_s:Q", "lasts_s:Q", "tokens:Q"],
    )
    names = base.mark_text(align="left", dx=7).encode(x=alt.X("end_s:Q"), text="took:N")
    return alt.layer(bars, names).properties(width=560, height=alt.Step(30))
