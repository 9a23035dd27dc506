"""Tables that every probe shares: one row per rung, one row that says how the prompts were built."""

from __future__ import annotations

from k3repro.store import Column, Table

RUNGS_TABLE = Table(
    "rungs",
    (
        Column("rung", "VARCHAR", doc="name of the rung, also the wave of its requests"),
        Column("position", "INT64", doc="order in which the rungs ran"),
        Column("measured", "BOOL", doc="false: calibration or canary"),
        Column("concurrency", "INT64", unit="requests", doc="requested, at most in flight"),
        Column("requests", "INT64", unit="requests", doc="planned"),
        Column("prompt_tokens_target", "INT64", unit="tokens", doc="per request"),
        Column("output_tokens_target", "INT64", unit="tokens", doc="per request: cap, or forced length"),
        Column("completed", "INT64", unit="requests", doc="ended with outcome completed"),
        Column("prompt_tokens", "INT64", unit="tokens", doc="sum over completed, as the server counted"),
        Column("completion_tokens", "INT64", unit="tokens", doc="sum over completed, as the server counted"),
        Column("cached_tokens", "INT64", unit="tokens", doc="sum over completed, from a prefix cache"),
        Column("wall_s", "DOUBLE", unit="s", doc="first send to last done"),
        Column("output_tokens_per_s", "DOUBLE", unit="tokens/s", doc="completion_tokens / wall_s"),
        Column("total_tokens_per_s", "DOUBLE", unit="tokens/s", doc="(prompt + completion) / wall_s"),
        Column("in_flight_plateau", "DOUBLE", unit="requests", doc="mean in flight, ramp and drain excluded"),
        Column("in_flight_peak", "INT64", unit="requests"),
        Column("forced_ratio", "DOUBLE", doc="completion tokens over tokens forced; NULL where not forced"),
        Column("little_ratio", "DOUBLE", doc="rate x time in system, over requests in flight"),
        Column("client_share", "DOUBLE", doc="share of what the client can do here; NULL in virtual time"),
        Column(
            "client_lag_s",
            "DOUBLE",
            unit="s",
            doc="p99 of missed deadlines in the client's loop; NULL in virtual time",
        ),
        Column("client_cpu_share", "DOUBLE", doc="CPU time over wall of the client; NULL in virtual time"),
        Column(
            "natural_stops",
            "INT64",
            unit="requests",
            doc="completed with finish_reason stop inside the token cap",
        ),
        Column("retries", "INT64", unit="requests", doc="sent again after a refusal with status 429"),
        Column("valid", "BOOL", doc="the instrument's verdict"),
        Column("reasons", "VARCHAR[]", doc="why not"),
    ),
    key=("rung",),
    doc="One row per rung: what was asked, what arrived, and whether the instrument vouches for it.",
)

CONSTRUCTION_TABLE = Table(
    "construction",
    (
        Column("purpose", "VARCHAR", doc="which prompts"),
        Column("generator", "VARCHAR", doc="module:function/version"),
        Column("seed", "VARCHAR"),
        Column("nonce", "VARCHAR", doc="makes prompts unlike those of any other run; empty in virtual time"),
        Column("words_sha256", "VARCHAR", doc="digest of the word lists"),
        Column(
            "overhead_tokens", "DOUBLE", unit="tokens", doc="calibrated: tokens of a prompt without filler"
        ),
        Column("tokens_per_word", "DOUBLE", unit="tokens", doc="calibrated: tokens per word of filler"),
        Column(
            "sized_by", "VARCHAR", doc="what counted prompts before they were sent; NULL: calibration only"
        ),
    ),
    key=("purpose",),
    doc="How the prompts were built; with the rung's target this is enough to build them again.",
)
