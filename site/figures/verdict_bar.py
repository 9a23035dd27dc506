"""All verdicts of a document in one bar, each with its count."""

import altair as alt


def figure(rows):
    base = alt.Chart(alt.Data(values=rows))
    bars = base.mark_bar(height=34).encode(
        x=alt.X("claims:Q", title=None, axis=None, stack=True),
        color=alt.Color("verdict:N", title=None, legend=alt.Legend(orient="bottom")),
    )
    counts = base.mark_text(color="#ffffff", fontWeight="bold").encode(
        x=alt.X("middle:Q", title=None, axis=None), text="claims:Q"
    )
    return alt.layer(bars, counts).properties(width=620, height=40)
