"""Wall-clock of a wave over that of a single request: the twin as lines, printed points as marks."""

import altair as alt


def figure(rows):
    """Flat means that another request costs nothing."""
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("concurrency:Q", title="requests in flight", scale=alt.Scale(type="log", nice=False)),
        y=alt.Y("over_floor:Q", title="wall over that of a single request"),
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
            tooltip=["platform:N", "concurrency:Q", "over_floor:Q"],
        )
    )
    return twin + printed
