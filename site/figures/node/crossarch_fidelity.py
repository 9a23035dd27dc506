"""Published total rates beside the simulated node: a dumbbell a level, a panel a model."""

import altair as alt


def figure(rows):
    """The grey bar joins what is printed and what each variant of the twin gives at one level."""
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("concurrency:Q", title="concurrency", scale=alt.Scale(type="log", nice=False, padding=10)),
        y=alt.Y(
            "rate:Q",
            title="total rate (tokens/s)",
            scale=alt.Scale(type="log", nice=False, padding=8),
            axis=alt.Axis(format="~s"),
        ),
    )
    bars = base.mark_line(color="#9aa5b1", strokeWidth=1.5).encode(detail=["series:N", "concurrency:O"])
    order = ["printed", "roofline", "shared prompt", "one factor"]
    colours = alt.Scale(domain=order, range=["#0b5f87", "#8a4fa0", "#b23a48", "#9a6b00"])
    dots = base.mark_point(size=46, filled=True, opacity=1).encode(
        color=alt.Color("source:N", title=None, scale=colours),
        shape=alt.Shape(
            "source:N",
            title=None,
            scale=alt.Scale(domain=order, range=["circle", "diamond", "triangle-up", "square"]),
        ),
        tooltip=["series:N", "concurrency:Q", "source:N", "rate:Q"],
    )
    panel = alt.layer(bars, dots).properties(width=250, height=190)
    return panel.facet(facet=alt.Facet("model:N", title=None), columns=2)
