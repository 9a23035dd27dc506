"""Probes that notice each fault."""

import altair as alt


def figure(rows):
    base = alt.Chart(alt.Data(values=rows)).encode(
        y=alt.Y(
            "defect:N",
            title=None,
            sort=None,
            axis=alt.Axis(labelLimit=140, minExtent=130, ticks=False, domain=False),
        ),
        x=alt.X("probes:Q", title="probes that notice", axis=alt.Axis(tickMinStep=1, tickCount=4)),
    )
    return (
        base.mark_bar(height=7)
        .encode(color=alt.Color("source:N", legend=None))
        .properties(width=190, height=alt.Step(13))
    )
