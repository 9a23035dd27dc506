"""Wall-clock of a wave over that of a single request."""

import altair as alt

STROKES = alt.Legend(symbolType="stroke", symbolStrokeWidth=2)


def figure(rows):
    """Flat means that another request costs nothing."""
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_line(point=True)
        .encode(
            x=alt.X("concurrency:Q", title="requests in flight", scale=alt.Scale(type="log", nice=False)),
            y=alt.Y("wall_over_floor:Q", title="wall over the wall of a single request"),
            color=alt.Color("platform:N", title="platform"),
            strokeDash=alt.StrokeDash("max_num_seqs:N", title="MAX_NUM_SEQS", legend=STROKES),
            tooltip=["platform:N", "concurrency:Q", "wall_over_floor:Q"],
        )
    )
