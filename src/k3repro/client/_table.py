"""REQUESTS_TABLE: the store table every probe uses for its per-request rows."""

from __future__ import annotations

from k3repro.store import Column, Table

__all__ = ["REQUESTS_TABLE"]

REQUESTS_TABLE = Table(
    "requests",
    [
        Column("request_id", "VARCHAR", doc="unique within the run", nullable=False),
        Column("wave", "VARCHAR", doc="the wave it belonged to", nullable=False),
        Column("outcome", "VARCHAR", doc="one of k3repro.client.Outcome", nullable=False),
        Column("http_status", "INT64", doc="status of the response; NULL when none came"),
        Column("finish_reason", "VARCHAR", doc="as the server said it"),
        Column("error", "VARCHAR", doc="what went wrong, or a remark on a completed request"),
        Column(
            "intended_ns",
            "INT64",
            unit="ns",
            doc="when it was due, since the start of the run",
            nullable=False,
        ),
        Column("sent_ns", "INT64", unit="ns", doc="when it was handed to the transport", nullable=False),
        Column("first_token_ns", "INT64", unit="ns", doc="arrival of the first generated token of any kind"),
        Column("last_token_ns", "INT64", unit="ns", doc="arrival of the last event that carries a token"),
        Column("done_ns", "INT64", unit="ns", doc="when the outcome was known", nullable=False),
        Column("prompt_tokens", "INT64", unit="tokens", doc="the server's usage"),
        Column(
            "completion_tokens", "INT64", unit="tokens", doc="the server's usage; never counted from events"
        ),
        Column("cached_tokens", "INT64", unit="tokens", doc="the server's usage, prompt_tokens_details"),
        Column(
            "first_event_tokens",
            "INT64",
            unit="tokens",
            doc="tokens in the first event, if the server says so",
        ),
        Column(
            "events",
            "INT64",
            unit="events",
            doc="server-sent events that brought generated tokens",
            nullable=False,
        ),
        Column("text", "VARCHAR", doc="the answer", nullable=False),
        Column("fingerprint", "VARCHAR", doc="system_fingerprint of the stream"),
        Column("reasoning", "VARCHAR", doc="what was thought before the answer, where told apart"),
        Column("tool_calls", "VARCHAR", doc="names and arguments of tools called"),
        Column("first_answer_ns", "INT64", unit="ns", doc="arrival of the first token of the answer"),
        Column("retries", "INT64", unit="requests", doc="sent again after a refusal with status 429"),
    ],
    key=("request_id",),
    doc="One row a request (k3repro.client.RequestRecord).",
)
