"""Verdicts of every audited document, counted."""

import altair as alt


def figure(rows):
    """A bar per verdict and document."""
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_bar()
        .encode(
            x=alt.X("claims:Q", title="claims"),
            y=alt.Y("document:N", title=None),
            yOffset=alt.YOffset("verdict:N"),
            color=alt.Color("verdict:N", title="verdict"),
            tooltip=["document:N", "verdict:N", "claims:Q"],
        )
        .properties(height=260)
    )
