"""The defects of the twin by name: what each is, what a person would see, and how it is switched on.

All are off by default. `NAME=RATE` switches one on; the rate is between 0 and 1 and means what `rate` says.
docs/defects.md is this table as prose.
"""

from __future__ import annotations

from dataclasses import dataclass

from k3repro.errors import UsageError

__all__ = ["DEFECTS", "Fault", "canonical", "rates"]

_PPM = 1_000_000


@dataclass(frozen=True, slots=True)
class Fault:
    """One defect: cause, meaning of its rate, default rate, log line, metrics and symptom."""

    name: str
    cause: str
    rate: str
    default_ppm: int
    log: str
    metrics: str
    symptom: str


_NOTHING = "nothing"
_ALL = (
    Fault(
        "kv-write-race",
        "decode reads a request's cache before the remote write is visible",
        "share of handoffs, while others are in flight, that are read stale",
        625_000,
        _NOTHING,
        "none moves: transfers count as complete",
        "garbled answers at concurrency above one, none at one",
    ),
    Fault(
        "state-recycle",
        "a recycled recurrent-state slot is not zeroed, so a request starts from a finished one's state",
        "share of requests once every slot has been reused often; it grows with reuse from zero",
        350_000,
        _NOTHING,
        "none moves",
        "answers of earlier requests under sustained concurrency; a request alone heals it",
    ),
    Fault(
        "fabric-wedged",
        "a wave was killed while caches were on their way, and concurrent transfers no longer complete",
        "share of concurrent handoffs whose blocks never arrive, once a wave was killed",
        _PPM,
        "Deferred write task for request ID expired after 60.0s (remote blocks never arrived), marking done",
        "vllm:moriio_num_kv_expired_reqs rises; running is zero, waiting is not",
        "after a killed wave concurrency one passes, every higher rung completes nothing",
    ),
    Fault(
        "missing-peers",
        "the list of peer hosts is incomplete, so ranks on the other node decode without context",
        "share of requests that decode without context, on every DP rank but the first",
        875_000,
        _NOTHING,
        "none moves",
        "seven of eight DP ranks answer as if the prompt were empty",
    ),
    Fault(
        "coalesced-events",
        "the server puts several tokens into one event under load",
        "share of tokens that travel in the event of a later one",
        500_000,
        _NOTHING,
        "none moves: the server counts tokens",
        "fewer events than tokens; a count of events misses tokens that arrived",
    ),
    Fault(
        "in-stream-error",
        "the engine fails after the status line was sent",
        "share of requests that end in an error event",
        50_000,
        "EngineCore encountered an issue; the request was aborted",
        "vllm:request_success_total counts them with finished_reason abort",
        "HTTP 200, then an error object inside the stream, no finish reason",
    ),
    Fault(
        "prefill-api-dies",
        "one of the eight API servers of the prefill pool dies while prompts queue",
        "chance, per request that arrives behind a full round of DP ranks, to take an API server down",
        20_000,
        "ApiServer process died unexpectedly, shutting down remaining processes",
        "requests stop reaching the queues; usage of the decode pool stays low",
        "HTTP 500 for the requests of dead servers, the rest unharmed",
    ),
    Fault(
        "idle-stall",
        "the scheduler waits for something that will not come",
        "chance, per request that arrives while others are in flight, to stop everything",
        20_000,
        _NOTHING,
        "running and waiting stay as they are, generation_tokens_total stands still",
        "idle GPUs, no request completes until the clients give up",
    ),
    Fault(
        "haystack-sensitivity",
        "linear attention loses a needle in filler that repeats",
        "share of questions over a repetitive haystack that are missed",
        500_000,
        _NOTHING,
        "none moves",
        "misses with repeated filler even at concurrency one, none with varied filler",
    ),
    Fault(
        "warm-prefix-cache",
        "prompts of an earlier run are still cached",
        "share of each prompt that is served from the cache",
        900_000,
        _NOTHING,
        "vllm:prefix_cache_hits_total rises; usage reports cached_tokens",
        "first tokens that come too soon",
    ),
    Fault(
        "tcp-fallback",
        "a transfer takes TCP instead of RDMA and nobody says so",
        "share of handoffs that go over TCP at a fiftieth of the rail's rate",
        _PPM,
        _NOTHING,
        "vllm:moriio_xfer_time_seconds rises against vllm:moriio_bytes_transferred",
        "first tokens late by the time of the transfer, more so with concurrency",
    ),
    Fault(
        "slow-client",
        "the machine that measures reads events later than they arrive",
        "delay of an answer in seconds per request in flight",
        20_000,
        _NOTHING,
        "vllm:e2e_request_latency_seconds stays below what the client saw",
        "throughput that flattens with concurrency though the server is idle in between",
    ),
    Fault(
        "clock-skew",
        "the clocks of the prefill and the decode nodes differ",
        "skew in seconds: how far decode's clock runs ahead",
        _PPM,
        _NOTHING,
        "vllm:time_to_first_token_seconds and e2e are off by the skew",
        "latencies in the server's metrics that no client saw",
    ),
    Fault(
        "decode-restarted",
        "the decode pool was restarted alone, so prefill writes to regions that are gone",
        "share of handoffs that address the old registration",
        500_000,
        "Timed out waiting for write_ready_flags",
        "vllm:moriio_num_failed_transfers rises",
        "connections that close in the stream, at any concurrency",
    ),
    Fault(
        "preamble",
        "the chat template makes the model think aloud before it answers",
        "share of chat answers that begin with sixty tokens of preamble",
        _PPM,
        _NOTHING,
        "none moves",
        "chat answers cut by a short token cap before the answer, completions unharmed",
    ),
)
DEFECTS: dict[str, Fault] = {fault.name: fault for fault in _ALL}


def rates(text: str) -> dict[str, int]:
    """Rates in parts per million of `NAME[=RATE],NAME[=RATE]`.

    Raises:
        UsageError: no such defect, or a rate that is not between 0 and 1.
    """
    found: dict[str, int] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, given, rate = part.partition("=")
        if name not in DEFECTS:
            fix = f"known: {', '.join(DEFECTS)}"
            raise UsageError(f"the twin has no defect {name!r}", where="target", fix=fix)
        found[name] = _ppm(name, rate) if given else DEFECTS[name].default_ppm
    return found


def _ppm(name: str, text: str) -> int:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise UsageError(
            f"the rate of {name} is {text!r}", where="target", fix=f"between 0 and 1, for example {name}=0.1"
        )
    return round(value * _PPM)


def canonical(text: str) -> str:
    """`text` in one spelling: names in order, rates as short decimals."""
    return ",".join(f"{name}={_decimal(ppm)}" for name, ppm in sorted(rates(text).items()))


def _decimal(ppm: int) -> str:
    whole, rest = divmod(ppm, _PPM)
    return f"{whole}.{rest:06d}".rstrip("0").rstrip(".")
