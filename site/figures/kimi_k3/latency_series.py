"""First-token time against requests in flight: printed quantiles as marks, the twin as lines."""

import altair as alt


def figure(rows):
    """Both axes logarithmic; colour is the platform, dash and shape the quantile."""
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("concurrency:Q", title="requests in flight", scale=alt.Scale(type="log", nice=False)),
        y=alt.Y("seconds:Q", title="first token, s", scale=alt.Scale(type="log")),
        color=alt.Color("platform:N", title="platform"),
    )
    twin = (
        base.transform_filter(alt.FieldEqualPredicate(field="source", equal="twin"))
        .mark_line()
        .encode(strokeDash=alt.StrokeDash("quantile:N", title="twin, quantile"))
    )
    printed = (
        base.transform_filter(alt.FieldEqualPredicate(field="source", equal="printed"))
        .mark_point(filled=True)
        .encode(
            shape=alt.Shape("quantile:N", title="printed, quantile"),
            tooltip=["platform:N", "quantile:N", "concurrency:Q", "seconds:Q"],
        )
    )
    return twin + printed
