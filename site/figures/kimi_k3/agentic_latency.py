"""Replay latency against the input length it reached; printed marks, twin marks, the slope as a line."""

import altair as alt


def figure(rows):
    """Both axes logarithmic; colour is the platform, shape the corpus, hollow marks are the twin's."""
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X(
            "input_tokens:Q",
            title="input length, tokens",
            scale=alt.Scale(type="log", nice=False, padding=14),
            axis=alt.Axis(format="~s"),
        ),
        y=alt.Y("seconds:Q", title="time, s", scale=alt.Scale(type="log", nice=False, padding=14)),
        color=alt.Color("platform:N", title="platform"),
    )
    tips = [
        "platform:N",
        "profile:N",
        "concurrency:Q",
        "input_tokens:Q",
        "seconds:Q",
        "source:N",
        "n_requests:Q",
    ]
    slope = (
        base.transform_filter(alt.FieldEqualPredicate(field="source", equal="slope k"))
        .mark_line()
        .encode(strokeDash=alt.StrokeDash("platform:N", title="platform"))
    )
    printed = (
        base.transform_filter(alt.FieldEqualPredicate(field="source", equal="printed"))
        .mark_point(filled=True, size=90)
        .encode(shape=alt.Shape("profile:N", title="corpus"), tooltip=tips)
    )
    twin = (
        base.transform_filter(alt.FieldEqualPredicate(field="source", equal="twin"))
        .mark_point(filled=False, size=90)
        .encode(shape=alt.Shape("profile:N"), tooltip=tips)
    )
    return slope + printed + twin
