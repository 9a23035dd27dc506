"""Cost of tokens against concurrency."""

import altair as alt


def figure(rows):
    """Each ladder is a line; ladders of one model differ because their workloads do."""
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("concurrency:Q", title="concurrency", scale=alt.Scale(type="log")),
        y=alt.Y("total_low:Q", title="$/M tokens, cheapest price", scale=alt.Scale(type="log")),
        color=alt.Color("model:N", title="model"),
    )
    marks = base.mark_point(filled=True).encode(
        shape=alt.Shape("model:N", title="model"), tooltip=["series:N", "concurrency:Q", "total_low:Q"]
    )
    return base.mark_line().encode(detail="series:N") + marks
