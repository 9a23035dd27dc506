"""Tables that every probe shares: one row per rung, one row that says how the prompts were built."""

from __future__ import annotations

from typing import Annotated

from k3repro.store import Col, Row


class RungRow(Row, table="rungs", key=("rung",)):
    """One row per rung: what was asked, what arrived, and whether the instrument vouches for it."""

    rung: Annotated[str, Col(doc="name of the rung, also the wave of its requests")]
    position: Annotated[int | None, Col(doc="order in which the rungs ran")]
    measured: Annotated[bool | None, Col(doc="false: calibration or canary")]
    concurrency: Annotated[int | None, Col("requests", "requested, at most in flight")]
    requests: Annotated[int | None, Col("requests", "planned")]
    prompt_tokens_target: Annotated[int | None, Col("tokens", "per request")]
    output_tokens_target: Annotated[int | None, Col("tokens", "per request: cap, or forced length")]
    completed: Annotated[int | None, Col("requests", "ended with outcome completed")]
    prompt_tokens: Annotated[int | None, Col("tokens", "sum over completed, as the server counted")]
    completion_tokens: Annotated[int | None, Col("tokens", "sum over completed, as the server counted")]
    cached_tokens: Annotated[int | None, Col("tokens", "sum over completed, from a prefix cache")]
    wall_s: Annotated[float | None, Col("s", "first send to last done")]
    output_tokens_per_s: Annotated[float | None, Col("tokens/s", "completion_tokens / wall_s")]
    total_tokens_per_s: Annotated[float | None, Col("tokens/s", "(prompt + completion) / wall_s")]
    in_flight_plateau: Annotated[float | None, Col("requests", "mean in flight, ramp and drain excluded")]
    in_flight_peak: Annotated[int | None, Col("requests")]
    forced_ratio: Annotated[
        float | None, Col(doc="completion tokens over tokens forced; NULL where not forced")
    ]
    little_ratio: Annotated[float | None, Col(doc="rate x time in system, over requests in flight")]
    client_share: Annotated[
        float | None, Col(doc="share of what the client can do here; NULL in virtual time")
    ]
    client_lag_s: Annotated[
        float | None, Col("s", "p99 of missed deadlines in the client's loop; NULL in virtual time")
    ]
    client_cpu_share: Annotated[
        float | None, Col(doc="CPU time over wall of the client; NULL in virtual time")
    ]
    natural_stops: Annotated[
        int | None, Col("requests", "completed with finish_reason stop inside the token cap")
    ]
    retries: Annotated[int | None, Col("requests", "sent again after a refusal with status 429")]
    valid: Annotated[bool | None, Col(doc="the instrument's verdict")]
    reasons: Annotated[list[str] | None, Col(doc="why not")]


class Construction(Row, table="construction", key=("purpose",)):
    """How the prompts were built; with the rung's target this is enough to build them again."""

    purpose: Annotated[str, Col(doc="which prompts")]
    generator: Annotated[str | None, Col(doc="module:function/version")]
    seed: str | None
    nonce: Annotated[
        str | None, Col(doc="makes prompts unlike those of any other run; empty in virtual time")
    ]
    words_sha256: Annotated[str | None, Col(doc="digest of the word lists")]
    overhead_tokens: Annotated[float | None, Col("tokens", "calibrated: tokens of a prompt without filler")]
    tokens_per_word: Annotated[float | None, Col("tokens", "calibrated: tokens per word of filler")]
    sized_by: Annotated[
        str | None, Col(doc="what counted prompts before they were sent; NULL: calibration only")
    ]
