"""First token or rate of long-context waves: the twin by waves in flight, printed figures as marks."""

import altair as alt


def figure(rows):
    """Both axes logarithmic; colour is the platform, dash the requests in flight."""
    unit = "first token, s" if all(row["unit"] == "s" for row in rows) else "rate, tokens/s"
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X(
            "context:Q",
            title="context, tokens",
            scale=alt.Scale(type="log", nice=False, padding=10),
            axis=alt.Axis(format="~s"),
        ),
        y=alt.Y(
            "value:Q",
            title=unit,
            scale=alt.Scale(type="log", nice=False, padding=14),
            axis=alt.Axis(format="~s"),
        ),
        color=alt.Color("platform:N", title="platform"),
    )
    tips = ["source:N", "platform:N", "context:Q", "concurrency:O", "value:Q", "unit:N"]
    twin = (
        base.transform_filter(alt.FieldEqualPredicate(field="source", equal="twin"))
        .mark_line()
        .encode(strokeDash=alt.StrokeDash("concurrency:O", title="twin, in flight"), tooltip=tips)
    )
    printed = (
        base.transform_filter(alt.FieldEqualPredicate(field="source", equal="printed"))
        .mark_point(filled=True, size=110)
        .encode(shape=alt.Shape("source:N", title="marks"), tooltip=tips)
    )
    return twin + printed
