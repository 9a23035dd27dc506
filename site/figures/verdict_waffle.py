"""Every claim of a document as a square, coloured by its verdict."""

import altair as alt


def figure(rows):
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_rect(opacity=1)
        .encode(
            x=alt.X("across:O", title=None, axis=None, scale=alt.Scale(paddingInner=0.2)),
            y=alt.Y("down:O", title=None, axis=None, scale=alt.Scale(paddingInner=0.2)),
            color=alt.Color("verdict:N", title=None, legend=alt.Legend(orient="bottom")),
            tooltip=["verdict:N", "printed:N", "about:N"],
        )
        .properties(width=alt.Step(16), height=alt.Step(16))
    )
