"""The plan as a drawing: a column a pool, a row a kind of process, numbered in order of launch."""

import altair as alt


def figure(rows):
    """Places come with the rows; the text of each box is its process and node."""
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("x:O", title=None, axis=None), y=alt.Y("y:O", title=None, axis=None)
    )
    box = base.mark_rect(filled=False, strokeWidth=2, cornerRadius=4).encode(
        color=alt.Color("pool:N", title="pool"), tooltip=["role:N", "node:N", "first_lane:Q", "last_lane:Q"]
    )
    text = base.mark_text(fontSize=13, limit=300).encode(text="says:N")
    return (box + text).properties(width=620, height=180)
