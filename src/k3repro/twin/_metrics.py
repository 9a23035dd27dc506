"""`/metrics` under vLLM's names, counted from the core's own flights, one `engine` label a lane.

Queries and hits of the prefix cache are those of the prefill lane, everything else is decode's.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate

from k3repro.twin._core import TRANSFER_BOUNDS_BYTES, TRANSFER_BOUNDS_NS, Core, Flight
from k3repro.twin._platform import Platform
from k3repro.twin._request import DECODE

__all__ = ["Metrics"]

_LATENCY: list[float] = [
    0.3,
    0.5,
    0.8,
    1,
    1.5,
    2,
    2.5,
    5,
    10,
    15,
    20,
    30,
    40,
    50,
    60,
    120,
    240,
    480,
    960,
    1920,
    7680,
]
_FIRST: list[float] = [
    0.001,
    0.005,
    0.01,
    0.02,
    0.04,
    0.06,
    0.08,
    0.1,
    0.25,
    0.5,
    0.75,
    1,
    2.5,
    5,
    7.5,
    10,
    20,
]
_FIRST += [40, 80, 160, 640, 2560]
_GAP: list[float] = [
    0.01,
    0.025,
    0.05,
    0.075,
    0.1,
    0.15,
    0.2,
    0.3,
    0.4,
    0.5,
    0.75,
    1,
    2.5,
    5,
    7.5,
    10,
    20,
    40,
    80,
]
_HISTOGRAMS: dict[str, tuple[str, Sequence[float]]] = {
    "time_to_first_token_seconds": ("Histogram of time to first token in seconds.", _FIRST),
    "inter_token_latency_seconds": ("Histogram of inter-token latency in seconds.", _GAP),
    "e2e_request_latency_seconds": ("Histogram of e2e request latency in seconds.", _LATENCY),
    "request_queue_time_seconds": ("Histogram of time spent in WAITING phase for request.", _LATENCY),
}


class _Histogram:
    """Counts in buckets and a sum in nanoseconds; integers, so the order of observations does not matter."""

    __slots__ = ("bounds", "counts", "total_ns")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = [round(bound * 1e9) for bound in bounds]
        self.counts = [0] * (len(bounds) + 1)
        self.total_ns = 0

    def add(self, nanoseconds: int) -> None:
        self.counts[bisect_left(self.bounds, nanoseconds)] += 1
        self.total_ns += nanoseconds


class Metrics:
    """Counters of one serve since it started."""

    def __init__(self, platform: Platform, mark: str) -> None:
        self.platform = platform
        self.mark = mark
        lanes = range(platform.lanes)
        self._finished: list[dict[str, int]] = [{"stop": 0, "length": 0, "abort": 0} for _ in lanes]
        self._prompt = [0 for _ in lanes]
        self._generated = [0 for _ in lanes]
        self._histograms = {name: [_Histogram(spec[1]) for _ in lanes] for name, spec in _HISTOGRAMS.items()}
        self._pending: list[tuple[Flight, str]] = []
        self.scale = 1.0  # simulated seconds per second of whoever reads; times here are simulated
        self.skew_ns = 0  # how far decode's clock runs ahead of prefill's

    def observe(self, flight: Flight, reason: str) -> None:
        """Count a flight that ended; the arithmetic is done when somebody asks, or every few thousand
        flights.
        """
        self._pending.append((flight, reason))
        if len(self._pending) >= 4096:
            self._settle()

    def _settle(self) -> None:
        for flight, reason in self._pending:
            lane = flight.lane
            self._finished[lane][reason] += 1
            self._generated[lane] += len(flight.times)
            self._prompt[lane] += 0 if flight.prefill_left else flight.prompt_tokens
            if flight.cancelled or not flight.times:
                continue
            self._add("time_to_first_token_seconds", lane, flight.times[0] - flight.arrival_ns + self.skew_ns)
            self._add(
                "e2e_request_latency_seconds", lane, flight.times[-1] - flight.arrival_ns + self.skew_ns
            )
            self._add("request_queue_time_seconds", lane, flight.prefill_start_ns - flight.arrival_ns)
            gaps = self._histograms["inter_token_latency_seconds"][lane]
            for before, after in zip(flight.times, flight.times[1:], strict=False):
                gaps.add(after - before)
        self._pending.clear()

    def _add(self, name: str, lane: int, nanoseconds: int) -> None:
        self._histograms[name][lane].add(nanoseconds)

    def text(self, core: Core) -> str:
        """The Prometheus exposition at the core's present time."""
        self._settle()
        return "\n".join(self._lines(core)) + "\n"

    def _lines(self, core: Core) -> Iterator[str]:
        yield "# HELP k3repro_twin_info This server is a simulation."
        yield "# TYPE k3repro_twin_info gauge"
        yield f'k3repro_twin_info{{mark="{self.mark}",platform="{self.platform.name}"}} 1.0'
        yield "# HELP k3repro_twin_time_scale Simulated seconds per real second."
        yield "# TYPE k3repro_twin_time_scale gauge"
        yield f"k3repro_twin_time_scale {self.scale}"
        yield from self._config(core)
        waiting, prompt, generated = self._so_far(core)
        for name, kind, doc, values in (
            (
                "num_requests_running",
                "gauge",
                "Number of requests in model execution batches.",
                core.lane_running,
            ),
            ("num_requests_waiting", "gauge", "Number of requests waiting to be processed.", waiting),
            ("prompt_tokens_total", "counter", "Number of prefill tokens processed.", prompt),
            ("generation_tokens_total", "counter", "Number of generation tokens processed.", generated),
            (
                "num_preemptions_total",
                "counter",
                "Cumulative number of preemption from the engine.",
                core.decode.preemptions,
            ),
            (
                "prefix_cache_queries_total",
                "counter",
                "Prefix cache queries, in terms of number of queried tokens.",
                core.prefill.queries,
            ),
            (
                "prefix_cache_hits_total",
                "counter",
                "Prefix cache hits, in terms of number of cached tokens.",
                core.prefill.hits,
            ),
            (
                "moriio_num_kv_expired_reqs_total",
                "counter",
                "Requests whose remote blocks never arrived.",
                core.expired,
            ),
            (
                "moriio_num_failed_transfers_total",
                "counter",
                "Transfers that failed.",
                core.failed_transfers,
            ),
        ):
            yield from _family(name, kind, doc)
            for lane, value in enumerate(values):
                yield f"vllm:{name}{self._labels(lane)} {value}.0"
        yield from _family("kv_cache_usage_perc", "gauge", "KV-cache usage. 1 means 100 percent usage.")
        for lane, pool in enumerate(core.decode.pools):
            yield f"vllm:kv_cache_usage_perc{self._labels(lane)} {pool.used / max(1, pool.usable)}"
        yield from self._transfers(core)
        yield from _family("request_success_total", "counter", "Count of successfully processed requests.")
        for lane, reasons in enumerate(self._finished):
            for reason, count in reasons.items():
                yield f"vllm:request_success_total{self._labels(lane, finished_reason=reason)} {count}.0"
        for name in _HISTOGRAMS:
            yield from self._histogram_lines(name)

    def _config(self, core: Core) -> Iterator[str]:
        # Under a name of its own: the engine's own info metric counts as evidence of a real engine.
        pages, caching = core.pages, bool(self.platform.prefix_caching)
        labels = f'block_tokens="{pages.block_tokens}",pool_blocks="{pages.usable + 1}"'
        yield "# HELP k3repro_twin_cache Paging of a simulated decode lane."
        yield "# TYPE k3repro_twin_cache gauge"
        yield f'k3repro_twin_cache{{{labels},prefix_caching="{caching}"}} 1.0'

    def _transfers(self, core: Core) -> Iterator[str]:
        bounds = [str(ns / 1e9) for ns in TRANSFER_BOUNDS_NS]
        sums = [ns / 1e9 for ns in core.transfer_ns]
        yield from self._buckets(
            "moriio_xfer_time_seconds", "Transfer duration.", bounds, core.transfer_slots, sums
        )
        bounds = [str(float(size)) for size in TRANSFER_BOUNDS_BYTES]
        sums = [float(size) for size in core.transfer_bytes]
        yield from self._buckets(
            "moriio_bytes_transferred", "Bytes per transfer.", bounds, core.transfer_sizes, sums
        )

    def _buckets(
        self,
        name: str,
        doc: str,
        bounds: Sequence[str],
        counts: Sequence[Sequence[int]],
        sums: Sequence[float],
    ) -> Iterator[str]:
        yield from _family(name, "histogram", doc)
        for lane, (slots, total) in enumerate(zip(counts, sums, strict=True)):
            for bound, count in zip([*bounds, "+Inf"], accumulate(slots), strict=True):
                yield f"vllm:{name}_bucket{self._labels(lane, le=bound)} {count}.0"
            yield f"vllm:{name}_count{self._labels(lane)} {sum(slots)}.0"
            yield f"vllm:{name}_sum{self._labels(lane)} {total}"

    def _so_far(self, core: Core) -> tuple[list[int], list[int], list[int]]:
        """Waiting requests, prompt and generation tokens per lane, flights under way included."""
        prompt, generated = list(self._prompt), list(self._generated)
        waiting = [0 for _ in prompt]
        for flight in core.flights.values():
            waiting[flight.lane] += flight.state != DECODE
            prompt[flight.lane] += 0 if flight.prefill_left else flight.prompt_tokens
            generated[flight.lane] += core.emitted(flight)
        return waiting, prompt, generated

    def _labels(self, lane: int, **more: str) -> str:
        return _label_text(str(lane), self.platform.model, *more.items())

    def _histogram_lines(self, name: str) -> Iterator[str]:
        doc, bounds = _HISTOGRAMS[name]
        shown = [*(str(float(bound)) for bound in bounds), "+Inf"]
        yield from _family(name, "histogram", doc)
        for lane, histogram in enumerate(self._histograms[name]):
            for bound, count in zip(shown, accumulate(histogram.counts), strict=True):
                yield f"vllm:{name}_bucket{self._labels(lane, le=bound)} {count}.0"
            yield f"vllm:{name}_count{self._labels(lane)} {sum(histogram.counts)}.0"
            yield f"vllm:{name}_sum{self._labels(lane)} {histogram.total_ns / 1e9}"


# Every scrape repeats the labels of the one before.
@lru_cache(1 << 14)
def _label_text(engine: str, model: str, *more: tuple[str, str]) -> str:
    labels = {"engine": engine, "model_name": model, **dict(more)}
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in sorted(labels.items())) + "}"


def _escaped(value: str) -> str:
    """A label's value as the exposition format writes it."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _family(name: str, kind: str, doc: str) -> Iterator[str]:
    yield f"# HELP vllm:{name} {doc}"
    yield f"# TYPE vllm:{name} {kind}"
