"""Printed output rates of both platforms, shape by shape: a dumbbell."""

import altair as alt


def figure(rows):
    base = alt.Chart(alt.Data(values=rows)).encode(
        y=alt.Y(
            "class:N",
            title=None,
            sort=None,
            axis=alt.Axis(labelLimit=140, minExtent=130, ticks=False, domain=False),
        ),
        x=alt.X(
            "rate:Q",
            title="tokens/s, as printed",
            scale=alt.Scale(type="log", nice=False, padding=14),
            axis=alt.Axis(tickCount=4),
        ),
    )
    line = base.mark_line(color="#9aa5b1").encode(detail="class:N")
    dots = base.mark_point(size=90, filled=True, opacity=1).encode(
        color=alt.Color("platform:N", title=None, legend=alt.Legend(orient="bottom"))
    )
    return alt.layer(line, dots).properties(width=190, height=alt.Step(30))
