"""Rate of a GPU against active parameters."""

import altair as alt


def figure(rows):
    """Fewer active parameters should mean more tokens; the ceiling is what the matrix units allow."""
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_point(filled=True, size=70)
        .encode(
            x=alt.X("active:Q", title="active parameters (B)", scale=alt.Scale(type="log")),
            y=alt.Y(
                "published_per_gpu:Q",
                title="highest printed rate (tokens/s/GPU)",
                scale=alt.Scale(type="log"),
            ),
            color=alt.Color("ladder:N", title="comparable ladders"),
            shape=alt.Shape("ladder:N", title="comparable ladders"),
            tooltip=["model:N", "ladder:N", "active:Q", "published_per_gpu:Q"],
        )
    )
