"""Time of a recall against context: the twin as lines, the earlier report's points as marks."""

import altair as alt


def figure(rows):
    """Both axes logarithmic: a straight line of slope one is a prefill of constant cost per token."""
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X(
            "context:Q",
            title="context, tokens",
            scale=alt.Scale(type="log", nice=False, padding=12),
            axis=alt.Axis(format="~s"),
        ),
        y=alt.Y("seconds:Q", title="whole request, s", scale=alt.Scale(type="log")),
        color=alt.Color("platform:N", title="platform"),
    )
    twin = (
        base.transform_filter(alt.FieldEqualPredicate(field="source", equal="twin"))
        .mark_line(point=True)
        .encode(
            strokeDash=alt.StrokeDash("source:N", title="line"),
            tooltip=["platform:N", "context:Q", "seconds:Q", "source:N"],
        )
    )
    earlier = (
        base.transform_filter(alt.FieldEqualPredicate(field="source", equal="earlier report"))
        .mark_point(filled=True, size=80)
        .encode(
            shape=alt.Shape("source:N", title="marks"),
            tooltip=["platform:N", "context:Q", "seconds:Q", "source:N"],
        )
    )
    return twin + earlier
