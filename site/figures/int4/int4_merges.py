"""Which magnitudes a rule can no longer tell apart."""

from __future__ import annotations

from typing import Any

import altair as alt


def figure(rows: list[dict[str, Any]]) -> alt.Chart:
    """Points by pair of magnitudes; colour and shape tell rule and weights."""
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_point(filled=True, size=90)
        .encode(
            x=alt.X("share:Q", title="Share of blocks", axis=alt.Axis(format="%")),
            y=alt.Y("pair:N", title="Magnitudes merged", sort=None),
            color=alt.Color("rule:N", title="Rule"),
            shape=alt.Shape("source:N", title="Weights"),
        )
    )
