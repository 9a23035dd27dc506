"""Aggregate output rate against requests in flight."""

import altair as alt


def figure(rows):
    """Both axes logarithmic: a straight line is perfect scaling, a flat one a plateau."""
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_line(point=True)
        .encode(
            x=alt.X("concurrency:Q", title="requests in flight", scale=alt.Scale(type="log")),
            y=alt.Y("tokens_per_s:Q", title="output rate, tokens/s", scale=alt.Scale(type="log")),
            color=alt.Color("platform:N", title="platform"),
            shape=alt.Shape("platform:N", title="platform"),
            strokeDash=alt.StrokeDash("max_num_seqs:N", title="MAX_NUM_SEQS"),
            tooltip=["platform:N", "concurrency:Q", "tokens_per_s:Q"],
        )
    )
