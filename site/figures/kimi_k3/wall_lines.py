"""Wall-clock against output length: the printed line and the requests of the twin's sweep."""

import altair as alt


def figure(rows):
    """The line is the publication's, the marks are the twin's."""
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("osl:Q", title="output tokens"),
        y=alt.Y("wall_s:Q", title="wall, s"),
        color=alt.Color("platform:N", title="platform"),
    )
    line = base.transform_filter(alt.FieldEqualPredicate(field="source", equal="printed line")).mark_line()
    points = (
        base.transform_filter(alt.FieldEqualPredicate(field="source", equal="twin, each request"))
        .mark_point()
        .encode(shape=alt.Shape("platform:N", title="platform"), tooltip=["platform:N", "osl:Q", "wall_s:Q"])
    )
    return line + points
