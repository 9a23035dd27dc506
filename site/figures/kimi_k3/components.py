"""Bytes of a checkpoint by component."""

from __future__ import annotations

from typing import Any

import altair as alt


def figure(rows: list[dict[str, Any]]) -> alt.Chart:
    """Points on a logarithmic axis: bars have no honest zero there."""
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_point(filled=True, size=80)
        .encode(
            x=alt.X("gib:Q", title="Size (GiB)", scale=alt.Scale(type="log")),
            y=alt.Y("component:N", title=None, sort="-x"),
        )
    )
