"""A few numbers beside each other: what is printed, and what we get."""

import altair as alt


def figure(rows):
    base = alt.Chart(alt.Data(values=rows)).encode(
        y=alt.Y(
            "what:N",
            title=None,
            sort=None,
            axis=alt.Axis(labelLimit=190, minExtent=165, ticks=False, domain=False),
        ),
        x=alt.X("number:Q", title=None, axis=None),
    )
    small, whole = all(row["number"] < 1 for row in rows), all(isinstance(row["number"], int) for row in rows)
    form = ".1%" if small else ",d" if whole else ",.1f"
    bars = base.mark_bar(height=16, cornerRadiusEnd=2).encode(color=alt.Color("source:N", legend=None))
    text = base.mark_text(align="left", dx=5, fontSize=12).encode(text=alt.Text("number:Q", format=form))
    return alt.layer(bars, text).properties(width=180, height=alt.Step(26))
