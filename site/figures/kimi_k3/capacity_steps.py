"""How many requests fit at each context: a step law drawn as steps, printed limits as marks."""

import altair as alt


def figure(rows):
    """Both axes logarithmic; every series says its name at its end."""
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X(
            "context_tokens:Q",
            title="context (tokens)",
            scale=alt.Scale(type="log", nice=False, padding=12),
            axis=alt.Axis(format="~s"),
        ),
        y=alt.Y(
            "requests:Q",
            title="requests that fit",
            scale=alt.Scale(type="log", nice=False, padding=12),
            axis=alt.Axis(format="~s"),
        ),
        color=alt.Color("platform:N", legend=None),
        detail="law:N",
    )
    blocks = base.transform_filter(alt.FieldEqualPredicate(field="law", equal="in whole blocks")).mark_line(
        interpolate="step-before"
    )
    printed = base.transform_filter(alt.FieldEqualPredicate(field="law", equal="printed")).mark_point(
        size=80, filled=True
    )
    names = base.mark_text(align="left", dx=8, dy=-9, fontSize=11).encode(
        text="label:N", tooltip=alt.value(None)
    )
    return alt.layer(blocks, printed, names).properties(width=620, height=330)
