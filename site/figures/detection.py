"""Detection against intensity: one small chart a defect, a row a probe, a cell a rate."""

import altair as alt


def figure(rows):
    """Fuller cells were flagged more often; a missing cell was not run, as nothing flagged the rate above.

    Opacity, because it reads the same in the light and in the dark, and its legend needs no gradient.
    """
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_rect(color="#2f80c3", stroke="#808080", strokeWidth=0.5)
        .encode(
            x=alt.X("rate:O", title="rate", axis=alt.Axis(labelAngle=0)),
            y=alt.Y("probe:N", title=None),
            opacity=alt.Opacity(
                "detection:Q",
                title="share flagged",
                scale=alt.Scale(domain=[0, 1], range=[0.15, 1]),
                legend=alt.Legend(values=[0, 0.5, 1], symbolType="square"),
            ),
            tooltip=["defect:N", "probe:N", "rate:O", "flagged:Q", "n:Q"],
        )
        .properties(width=160, height=182)
        .facet(facet=alt.Facet("defect:N", title=None), columns=3)
    )
