"""The one outcome of a request, decided from what was seen; pure, so that the table of cases can be tested
as such.
"""

from __future__ import annotations

from k3repro.client._answer import AnswerReader
from k3repro.client._http import ResponseReader
from k3repro.client._model import Outcome, Request

__all__ = ["judge_request"]

_BROKEN_FINISHES = frozenset({"abort", "error"})
_IGNORES = ": it does not honour ignore_eos (--natural lets replies end where the model ends them)"


def judge_request(
    request: Request,
    response: ResponseReader,
    answer: AnswerReader,
    stopped: tuple[Outcome, str] | None,
    lost: str | None,
) -> tuple[Outcome, str | None]:
    """(outcome, error or remark). `stopped`: the client gave up; `lost`: why the connection ended, if it
    did.
    """
    if stopped is not None:
        return stopped
    if response.status is None:
        return Outcome.FAILED_HTTP, response.problem or lost or "the connection closed before any answer"
    if response.status != 200:
        return Outcome.FAILED_HTTP, _http_error(response, answer)
    if answer.error is not None:
        return Outcome.FAILED_IN_STREAM, answer.error
    if response.problem is not None and answer.finish_reason is None:
        return Outcome.FAILED_IN_STREAM, response.problem
    if answer.finish_reason is None:
        if answer.done or response.complete:
            return Outcome.TRUNCATED, "the stream ended without a finish_reason"
        return Outcome.TRUNCATED, lost or "the connection closed in the stream"
    if answer.finish_reason in _BROKEN_FINISHES:
        return Outcome.FAILED_IN_STREAM, f"finish_reason {answer.finish_reason}"
    return _counted(request, response, answer, lost)


def _counted(
    request: Request, response: ResponseReader, answer: AnswerReader, lost: str | None
) -> tuple[Outcome, str | None]:
    counted, asked = answer.completion_tokens, request.max_tokens
    if counted is not None and counted > asked:
        return Outcome.FAILED_IN_STREAM, f"the server counted {counted} tokens, {asked} were asked for"
    if counted is not None and request.ignore_eos and counted < asked and not _stop_asked(request, answer):
        return (
            Outcome.TRUNCATED,
            f"the server counted {counted} of {asked} tokens (finish_reason {answer.finish_reason})"
            + (_IGNORES if answer.finish_reason == "stop" else ""),
        )
    if (
        counted is None
        and request.ignore_eos
        and answer.finish_reason != "length"
        and not _stop_asked(request, answer)
    ):
        return Outcome.TRUNCATED, f"finish_reason {answer.finish_reason} in spite of ignore_eos, and no usage"
    if counted is None:
        return Outcome.COMPLETED, "usage missing: the number of tokens is unknown"
    if response.problem is not None or (not response.complete and not answer.done):
        return (
            Outcome.COMPLETED,
            f"ended after finish_reason and usage: {response.problem or lost or 'no [DONE]'}",
        )
    return Outcome.COMPLETED, answer.remark


def _stop_asked(request: Request, answer: AnswerReader) -> bool:
    return bool(request.stop) and answer.finish_reason == "stop"


def _http_error(response: ResponseReader, answer: AnswerReader) -> str:
    status = response.status or 0
    if 300 <= status < 400:
        return f"redirect (HTTP {status}); redirects are not followed: point the target at the final address"
    after = response.headers.get("retry-after", "")
    wait = f" (Retry-After {after[:40]})" if after else ""
    detail = f": {answer.error}" if answer.error else ""
    return f"HTTP {status}{wait}{detail}"
