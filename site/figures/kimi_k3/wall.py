"""Wall-clock against output length: points of a sweep and the fitted line."""

import altair as alt


def figure(rows):
    """One colour and shape per platform; the line is the fit."""
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("osl:Q", title="output tokens"),
        color=alt.Color("platform:N", title="platform"),
    )
    line = base.mark_line().encode(y=alt.Y("fitted_s:Q", title="wall, s"))
    points = base.mark_point().encode(
        y="wall_s:Q",
        shape=alt.Shape("platform:N", title="platform"),
        tooltip=["platform:N", "osl:Q", "wall_s:Q"],
    )
    return line + points
