"""Share of a wave that ends within a timeout, by context."""

import altair as alt

COUNTS = alt.Legend(format="~s")


def figure(rows):
    """A line per context; platforms side by side."""
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_line(point=True)
        .encode(
            x=alt.X("timeout_s:Q", title="timeout, s", scale=alt.Scale(type="log")),
            y=alt.Y("share:Q", title="share done", axis=alt.Axis(format="%")),
            color=alt.Color("context_tokens:O", title="context, tokens", legend=COUNTS),
            strokeDash=alt.StrokeDash("context_tokens:O", title="context, tokens", legend=COUNTS),
        )
        .properties(width=280)
        .facet(facet=alt.Facet("platform:N", title=None), columns=2)
    )
