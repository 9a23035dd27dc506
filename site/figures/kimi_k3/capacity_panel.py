"""Limits by law, and the waves that were printed as served or failed, context by context."""

import altair as alt

ORDER = ["served", "failed", "envelope, most in flight", "printed law", "block law", "slots"]
SCALE = alt.Scale(domain=ORDER, range=["#1b6e3c", "#b23a48", "#45736f", "#0b5f87", "#9a6b00", "#7b8794"])
SHAPES = ["circle", "cross", "circle", "diamond", "square", "triangle-up"]


def figure(rows):
    """A row a context: where the printed waves end, and where each law puts the limit."""
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X(
            "requests:Q",
            title="requests in flight",
            scale=alt.Scale(type="log", nice=False, padding=12),
            axis=alt.Axis(format="~s"),
        ),
        y=alt.Y("context_tokens:O", title="context, tokens", axis=alt.Axis(format="~s", grid=True)),
    )
    marks = base.mark_point(size=80, filled=True, opacity=1).encode(
        color=alt.Color("series:N", title=None, scale=SCALE),
        shape=alt.Shape("series:N", title=None, scale=alt.Scale(domain=ORDER, range=SHAPES)),
        tooltip=["platform:N", "series:N", "context_tokens:Q", "requests:Q"],
    )
    panel = marks.properties(width=270, height=alt.Step(34))
    return panel.facet(facet=alt.Facet("platform:N", title=None), columns=2)
