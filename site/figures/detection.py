"""One matrix: every probe against every fault, the smallest rate it is shown to catch."""

import altair as alt


def figure(rows):
    """Filled: caught, with its smallest rate, or not caught. Empty: not tried."""
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X(
            "probe:N",
            title=None,
            axis=alt.Axis(orient="top", labelAngle=-55, ticks=False, domain=False, labelLimit=120),
        ),
        y=alt.Y("defect:N", title=None, axis=alt.Axis(ticks=False, domain=False, labelLimit=150)),
    )
    cells = base.mark_rect(stroke="#9aa5b1", strokeWidth=0.5).encode(
        color=alt.Color(
            "state:N", title=None,
            scale=alt.Scale(
                domain=["caught", "not caught", "not tried"], range=["#5b7f2b", "#b23a48", "transparent"]
            ),
        ),
        opacity=alt.value(0.85),
    )  # fmt: skip
    return (cells + base.mark_text(fontSize=10, color="#ffffff").encode(text="shown:N")).properties(
        width=alt.Step(40), height=alt.Step(24)
    )
