"""Nodes against users: a step line for each prompt length, one panel a platform."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

COUNTS = alt.Legend(format=",")
STEPS = ["#7b8794", "#45736f", "#5b7f2b", "#9a6b00", "#b23a48"]


def figure(rows: Sequence[Mapping[str, Any]]) -> alt.FacetChart:
    """Fewest nodes against users, both platforms."""
    lines = (
        alt.Chart(alt.Data(values=list(rows)))
        .mark_line(interpolate="step-before", point=True)
        .encode(
            x=alt.X("users:Q", title="users", scale=alt.Scale(type="log", base=2)),
            y=alt.Y("nodes:Q", title="fewest nodes"),
            color=alt.Color("isl:O", title="prompt, tokens", scale=alt.Scale(range=STEPS), legend=COUNTS),
            strokeDash=alt.StrokeDash("isl:O", title="prompt, tokens", legend=COUNTS),
            tooltip=[
                alt.Tooltip("platform:N", title="platform"),
                alt.Tooltip("isl:Q", title="prompt, tokens", format=","),
                alt.Tooltip("users:Q", title="users", format=","),
                alt.Tooltip("nodes:Q", title="nodes"),
                alt.Tooltip("shape:N", title="prefill and decode nodes"),
                alt.Tooltip("ttft_s_p95:Q", title="first token p95, s", format=".3g"),
            ],
        )
        .properties(width=265, height=220)
    )
    return lines.facet(facet=alt.Facet("platform:N", title=None), columns=2)
