"""Cost of tokens against concurrency."""

import altair as alt


def figure(rows):
    """Each ladder is a line; ladders of one model differ because their workloads do."""
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_line(point=True)
        .encode(
            x=alt.X("concurrency:Q", title="concurrency", scale=alt.Scale(type="log")),
            y=alt.Y("total_low:Q", title="$/M tokens, cheapest price", scale=alt.Scale(type="log")),
            color=alt.Color("model:N", title="model"),
            strokeDash=alt.StrokeDash("model:N", title="model"),
            detail="series:N",
            tooltip=["series:N", "concurrency:Q", "total_low:Q"],
        )
    )
