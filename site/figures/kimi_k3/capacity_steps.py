"""How many requests fit at each context: a step law drawn as steps, printed limits as marks."""

import altair as alt


def figure(rows):
    """Both axes logarithmic; a step line says its platform, printed marks what they are."""
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X(
            "context_tokens:Q",
            title="context (tokens)",
            scale=alt.Scale(type="log", nice=False, padding=12),
            axis=alt.Axis(format="~s", grid=False),
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
    blocks, printed = (
        base.transform_filter(alt.FieldEqualPredicate(field="law", equal=law))
        for law in ("in whole blocks", "printed")
    )
    layers = [blocks.mark_line(interpolate="step-before"), printed.mark_point(size=80, filled=True)]
    for series, right, down in ((blocks, 8, -9), (printed, 18, 0)):
        text = series.mark_text(align="left", dx=right, dy=down, fontSize=11)
        layers.append(text.encode(text="label:N", tooltip=alt.value(None)))
    return alt.layer(*layers).properties(width=620, height=330)
