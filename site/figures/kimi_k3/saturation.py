"""Output rate against users."""

import altair as alt


def figure(rows):
    """Flat means that more users only wait."""
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_line(point=True)
        .encode(
            x=alt.X(
                "users:Q",
                title="users with a request in flight",
                scale=alt.Scale(type="log", nice=False, padding=10),
            ),
            y=alt.Y("rate:Q", title="output rate (tokens/s)"),
            color=alt.Color("subject:N", title="target"),
            strokeDash=alt.StrokeDash("shape:N", title="input/output tokens"),
            tooltip=["subject:N", "users:Q", "rate:Q"],
        )
    )
