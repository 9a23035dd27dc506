"""Limits against context by law, and the waves that were printed as served or failed."""

import altair as alt


def figure(rows):
    """Both axes logarithmic: lines are limits, marks are waves; colour is the platform."""
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X(
            "context_tokens:Q",
            title="context, tokens",
            scale=alt.Scale(type="log", nice=False, padding=12),
            axis=alt.Axis(format="~s"),
        ),
        y=alt.Y(
            "requests:Q",
            title="requests",
            scale=alt.Scale(type="log", nice=False, padding=10),
            axis=alt.Axis(format="~s"),
        ),
        color=alt.Color("platform:N", title="platform"),
    )
    limits = (
        base.transform_filter(alt.FieldEqualPredicate(field="kind", equal="limit"))
        .mark_line()
        .encode(strokeDash=alt.StrokeDash("series:N", title="limit"))
    )
    waves = (
        base.transform_filter(alt.FieldEqualPredicate(field="kind", equal="wave"))
        .mark_point(filled=True, size=80)
        .encode(
            shape=alt.Shape("series:N", title="wave, printed"),
            tooltip=["platform:N", "series:N", "context_tokens:Q", "requests:Q"],
        )
    )
    return (limits + waves).properties(height=340)
