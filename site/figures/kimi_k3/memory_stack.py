"""Where the memory of one GPU goes: a stack a platform."""

import altair as alt

PARTS = ["experts", "attention and dense", "transfer heap", "overhead", "left for KV"]


def figure(rows):
    base = alt.Chart(alt.Data(values=rows)).encode(
        y=alt.Y("platform:N", title=None, sort=None),
        x=alt.X("gib:Q", title="GiB of one GPU", stack=True),
    )
    bars = base.mark_bar(height=38).encode(
        color=alt.Color(
            "part:N", title=None, sort=PARTS,
            scale=alt.Scale(domain=PARTS, range=["#52606d", "#7b8794", "#9a6b00", "#45736f", "#5b7f2b"]),
        )
    )  # fmt: skip
    return bars.properties(width=620, height=alt.Step(54))
