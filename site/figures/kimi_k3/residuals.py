"""Residuals of the wall law: what the line leaves."""

import altair as alt


def figure(rows):
    """A point per request; a line through nothing would hide a bend."""
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_point()
        .encode(
            x=alt.X("osl:Q", title="output tokens"),
            y=alt.Y("residual_s:Q", title="residual, s"),
            color=alt.Color("platform:N", title="platform"),
            shape=alt.Shape("platform:N", title="platform"),
            tooltip=["platform:N", "osl:Q", "residual_s:Q"],
        )
        .properties(height=140)
    )
