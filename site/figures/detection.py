"""Detection against intensity: one small chart a defect, a row a probe, a cell a rate."""

import altair as alt


def figure(rows):
    """Darker cells were flagged more often; a missing cell was not run, as nothing flagged the rate above."""
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_rect(stroke="#808080", strokeWidth=0.5)
        .encode(
            x=alt.X("rate:O", title="rate", axis=alt.Axis(labelAngle=0)),
            y=alt.Y("probe:N", title=None),
            color=alt.Color(
                "detection:Q", title="share flagged", scale=alt.Scale(scheme="blues", domain=[0, 1])
            ),
            tooltip=["defect:N", "probe:N", "rate:O", "flagged:Q", "n:Q"],
        )
        .properties(width=160, height=182)
        .facet(facet=alt.Facet("defect:N", title=None), columns=3)
    )
