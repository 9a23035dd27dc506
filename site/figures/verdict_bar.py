"""All verdicts of a document in one bar."""

import altair as alt


def figure(rows):
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("claims:Q", title=None, axis=None, stack=True),
        color=alt.Color("verdict:N", title=None, legend=alt.Legend(orient="bottom")),
    )
    return base.mark_bar(height=34).properties(width=620, height=40)
