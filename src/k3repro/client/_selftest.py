"""The client's own speed, measured on this machine against a zero-delay server in another process."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from k3repro.client._access import Access
from k3repro.client._bare import bare_wave
from k3repro.client._load import wave_load
from k3repro.client._model import Outcome, Request, RequestRecord
from k3repro.client._target import Target, open_target
from k3repro.client._wave import run_wave
from k3repro.errors import InvalidRun, MachineError

__all__ = ["CLIENT_SHARE_LIMIT", "SelfTest", "selftest", "zero_server"]

CLIENT_SHARE_LIMIT = (
    0.5  # a rung that uses more than this share of what the client can do measures the client
)
_START_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class SelfTest:
    """What the client can do here. Rates are requests per second, times seconds; medians over interleaved
    repeats.

    `ratio` compares with a bare asyncio socket client in the same minutes; `added_ttft_s` is the median
    time to the first token less the bare client's median time to the first byte, at concurrency
    `ttft_concurrency`.
    """

    requests: int
    repeats: int
    tokens: int
    concurrency: int
    rate_per_s: float
    bare_rate_per_s: float
    ratio: float
    events_per_s: float
    achieved: float
    ttft_concurrency: int
    ttft_s: float
    bare_ttft_s: float
    added_ttft_s: float
    share_limit: float = CLIENT_SHARE_LIMIT

    def share(self, records: Sequence[RequestRecord]) -> float:
        """Share of the client's capacity that a wave used: the larger of its request and its event rate."""
        sent = [record for record in records if record.done_ns > record.sent_ns]
        if not sent:
            return 0.0
        span = (max(r.done_ns for r in sent) - min(r.sent_ns for r in sent)) / 1e9
        events = sum(record.events for record in sent) / span
        return max(len(sent) / span / self.rate_per_s, events / self.events_per_s)

    def check(self, records: Sequence[RequestRecord]) -> None:
        """Raise InvalidRun when a wave used more of the client than `share_limit`."""
        share = self.share(records)
        if share > self.share_limit:
            raise InvalidRun(
                f"the client was {share:.0%} busy; above {self.share_limit:.0%} a rung measures the client",
                fix="lower the concurrency, or run the client on a faster or idle machine",
            )

    def as_dict(self) -> dict[str, Any]:
        """All fields, for an artifact."""
        return asdict(self)


@contextmanager
def zero_server() -> Iterator[int]:
    """A zero-delay server in a process of its own; yields its port.

    Raises:
        MachineError: it did not start.
    """
    command = [sys.executable, "-m", "k3repro.client._zero"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None and process.stdout is not None
    try:
        line = process.stdout.readline()
        if not line.strip().isdigit():
            raise MachineError("the zero-delay server did not start", where="self-test")
        yield int(line)
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait(_START_TIMEOUT_S)


def selftest(
    *,
    requests: int = 2000,
    repeats: int = 5,
    tokens: int = 8,
    concurrency: int = 64,
    ttft_concurrency: int = 8,
) -> SelfTest:
    """Measure the client, every check and record on. Takes about three seconds on an idle machine.

    Raises:
        MachineError: the server could not be started.
        InvalidRun: a request against the zero-delay server did not complete.
    """
    # How the user's own server is reached (key, API, certificates) says nothing of this one.
    plain = Access(endpoint="completions")
    with zero_server() as port, open_target(f"http://127.0.0.1:{port}", access=plain) as target:
        _ours(target, port, concurrency * 2, concurrency, tokens)  # warm both sides up
        rounds = [
            (
                _bare(target, port, requests, concurrency, tokens),
                _ours(target, port, requests, concurrency, tokens),
            )
            for _ in range(repeats)
        ]
        quiet = [
            (
                _bare(target, port, requests // 4, ttft_concurrency, tokens),
                _ours(target, port, requests // 4, ttft_concurrency, tokens),
            )
            for _ in range(repeats)
        ]
    rate = statistics.median(ours.rate for _, ours in rounds)
    bare_rate = statistics.median(bare.rate for bare, _ in rounds)
    ttft = statistics.median(ours.ttft_s for _, ours in quiet)
    bare_ttft = statistics.median(bare.ttft_s for bare, _ in quiet)
    return SelfTest(
        requests=requests,
        repeats=repeats,
        tokens=tokens,
        concurrency=concurrency,
        rate_per_s=rate,
        bare_rate_per_s=bare_rate,
        ratio=statistics.median(ours.rate / bare.rate for bare, ours in rounds),
        events_per_s=rate * tokens,
        achieved=statistics.median(ours.achieved for _, ours in rounds),
        ttft_concurrency=ttft_concurrency,
        ttft_s=ttft,
        bare_ttft_s=bare_ttft,
        added_ttft_s=ttft - bare_ttft,
    )


@dataclass(frozen=True, slots=True)
class _Round:
    rate: float
    ttft_s: float
    achieved: float = 0.0


def _bare(target: Target, port: int, count: int, concurrency: int, tokens: int) -> _Round:
    request = target.encode(Request("bare", "hello world", tokens))

    async def wave(_: Target) -> tuple[float, list[int]]:
        return await bare_wave("127.0.0.1", port, request, count, concurrency)

    rate, first_bytes = target.run(wave)
    return _Round(rate, statistics.median(first_bytes) / 1e9)


def _ours(target: Target, port: int, count: int, concurrency: int, tokens: int) -> _Round:
    requests = [Request(f"r{index}", "hello world", tokens) for index in range(count)]
    begin = time.perf_counter()
    records = target.run(run_wave, requests, concurrency=concurrency)
    elapsed = time.perf_counter() - begin
    bad = [
        record
        for record in records
        if record.outcome is not Outcome.COMPLETED or record.text.count(" ") != tokens
    ]
    if bad:
        raise InvalidRun(
            f"{len(bad)} of {count} requests failed: {bad[0].outcome.value}: {bad[0].error}",
            where="self-test",
        )
    ttft = statistics.median(record.ttft_s for record in records if record.ttft_s is not None)
    return _Round(count / elapsed, ttft, wave_load(records, concurrency).achieved)
