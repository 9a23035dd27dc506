"""Every claim of a document as a square, coloured by its verdict."""

import altair as alt


def figure(rows):
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_square(size=150, opacity=1)
        .encode(
            x=alt.X("across:O", title=None, axis=None),
            y=alt.Y("down:O", title=None, axis=None),
            color=alt.Color("verdict:N", title=None, legend=alt.Legend(orient="bottom")),
            tooltip=["verdict:N", "printed:N", "about:N"],
        )
        .properties(width=alt.Step(16), height=alt.Step(16))
    )
