"""Detection against intensity: one small chart a defect, one line a probe."""

import altair as alt


def figure(rows):
    """Rates on a logarithmic axis; a probe that never flags a defect lies on the ground."""
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_line(point=True)
        .encode(
            x=alt.X("rate:Q", title="rate", scale=alt.Scale(type="log")),
            y=alt.Y("detection:Q", title="share flagged"),
            color=alt.Color("probe:N", title="probe"),
            strokeDash=alt.StrokeDash("probe:N", title="probe"),
            tooltip=["defect:N", "probe:N", "rate:Q", "flagged:Q", "n:Q"],
        )
        .properties(width=180, height=110)
        .facet(facet=alt.Facet("defect:N", title="defect"), columns=3)
    )
