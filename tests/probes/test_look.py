"""The first look at a serve: what it costs, whether it thinks, a refusal told before anything is planned."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from k3repro.client import Outcome, Request, RequestRecord
from k3repro.errors import TargetError
from k3repro.probes import look

MS = 10**6


class Serve:
    """Answers with 100 ms, 10 ms a token, 0.1 ms a word of the prompt; `changes` make it another one."""

    subject = "m#1"

    def __init__(self, **changes: Any) -> None:
        self.changes = changes

    def run(self, _: Any, requests: list[Request], **options: Any) -> list[RequestRecord]:
        (request,) = requests
        words = len(str(request.prompt).split())
        done = 100 * MS + request.max_tokens * 10 * MS + words * MS // 10
        record = RequestRecord(
            request.request_id, "w", Outcome.COMPLETED, 200, "length", None, 0, 0, MS, done, done, words,
            request.max_tokens, 0, 1, request.max_tokens, "one two", None,
        )  # fmt: skip
        return [replace(record, **self.changes)]


def test_costs_come_from_replies_of_two_lengths_and_prompts_of_two() -> None:
    found = look(Serve())
    assert found.costs is not None and not found.thinks
    assert found.costs.step_s == pytest.approx(0.01)
    assert found.costs.prefill_token_s == pytest.approx(1e-4)
    assert found.costs.floor_s == pytest.approx(0.1, abs=0.001)


@pytest.mark.parametrize(
    ("changes", "thinks"),
    [
        ({"reasoning": "hm", "text": ""}, True),
        ({"text": ""}, True),
        ({"text": "<think> so"}, True),
        ({}, False),
    ],
)
def test_a_model_that_thinks_before_it_answers_is_known(changes: dict[str, Any], thinks: bool) -> None:
    assert look(Serve(**changes)).thinks is thinks


def test_a_server_that_refuses_is_told_with_the_option() -> None:
    with pytest.raises(TargetError, match="HTTP 404.*--endpoint"):
        look(Serve(outcome=Outcome.FAILED_HTTP, http_status=404, error="HTTP 404"))


def test_where_nothing_ends_it_says_so() -> None:
    found = look(Serve(outcome=Outcome.TIMEOUT, error="no end within 300 s"))
    assert found.costs is None and found.why == "a small request did not end: no end within 300 s"
