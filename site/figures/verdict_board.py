"""Verdicts of every audited document, counted."""

import altair as alt


def figure(rows):
    """Bars by verdict, a row of charts a document."""
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_bar()
        .encode(
            x=alt.X("claims:Q", title="claims"),
            y=alt.Y("verdict:N", title=None),
            color=alt.Color("verdict:N", legend=None),
            tooltip=["document:N", "verdict:N", "claims:Q"],
        )
        .properties(height=80, width=460)
        .facet(
            row=alt.Row(
                "document:N", title=None, header=alt.Header(labelAngle=0, labelAlign="left", labelOrient="top")
            )
        )
    )
