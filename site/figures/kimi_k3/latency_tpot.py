"""Time per output token against requests in flight."""

import altair as alt


def figure(rows):
    """The twin as lines, printed cells as marks."""
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("concurrency:Q", title="requests in flight", scale=alt.Scale(type="log", nice=False)),
        y=alt.Y("tpot_ms:Q", title="time per output token, ms", scale=alt.Scale(zero=False)),
        color=alt.Color("platform:N", title="platform"),
    )
    twin = (
        base.transform_filter(alt.FieldEqualPredicate(field="source", equal="twin"))
        .mark_line()
        .encode(strokeDash=alt.StrokeDash("platform:N", title="platform"))
    )
    printed = (
        base.transform_filter(alt.FieldEqualPredicate(field="source", equal="printed"))
        .mark_point(filled=True)
        .encode(
            shape=alt.Shape("source:N", title="marks"), tooltip=["platform:N", "concurrency:Q", "tpot_ms:Q"]
        )
    )
    return twin + printed
