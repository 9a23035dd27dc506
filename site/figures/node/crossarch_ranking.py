"""Rate of a GPU against active parameters."""

import altair as alt


def figure(rows):
    """Fewer active parameters should mean more tokens; the ceiling is what the matrix units allow."""
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X(
            "active:Q", title="active parameters (B)", scale=alt.Scale(type="log", nice=False, padding=60)
        ),
        y=alt.Y(
            "published_per_gpu:Q",
            title="highest printed rate (tokens/s/GPU)",
            scale=alt.Scale(type="log", nice=False, padding=20),
        ),
        tooltip=["model:N", "ladder:N", "active:Q", "published_per_gpu:Q"],
    )
    marks = base.mark_point(filled=True, size=80).encode(
        color=alt.Color("ladder:N", title="comparable ladders"),
        shape=alt.Shape("ladder:N", title="comparable ladders"),
    )
    return marks + base.mark_text(dy=-10, fontSize=11).encode(text="model:N")
