"""Aggregate output rate against requests in flight: the twin as lines, printed points as marks."""

import altair as alt


def figure(rows):
    """Both axes logarithmic: a straight line is perfect scaling, a flat one a plateau."""
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("concurrency:Q", title="requests in flight", scale=alt.Scale(type="log", nice=False)),
        y=alt.Y("tokens_per_s:Q", title="output rate, tokens/s", scale=alt.Scale(type="log", nice=False)),
        color=alt.Color("platform:N", title="platform"),
    )
    twin = (
        base.transform_filter(alt.FieldEqualPredicate(field="source", equal="twin"))
        .mark_line()
        .encode(strokeDash=alt.StrokeDash("setting:N", title="twin, MAX_NUM_SEQS"))
    )
    printed = (
        base.transform_filter(alt.FieldEqualPredicate(field="source", equal="printed"))
        .mark_point(filled=True)
        .encode(
            shape=alt.Shape("relation:N", title="printed, relation"),
            tooltip=["platform:N", "concurrency:Q", "tokens_per_s:Q", "printed_in:N"],
        )
    )
    return twin + printed
