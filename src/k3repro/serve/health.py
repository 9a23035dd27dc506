"""Health of a serve from its own metrics: is it idle, did it answer, does anything look degraded."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from k3repro.serve.metrics import Metrics

_FAILURES = (
    "vllm:moriio_num_failed_transfers",
    "vllm:moriio_num_failed_notifications",
    "vllm:nixl_num_failed_transfers",
)
_EXPIRED = ("vllm:moriio_num_kv_expired_reqs", "vllm:nixl_num_kv_expired_reqs")


@dataclass(frozen=True, slots=True)
class Health:
    """What the metrics say; None where the engine does not report it."""

    ok: bool
    reasons: tuple[str, ...]
    running: int | None
    waiting: int | None
    kv_usage: float | None
    preemptions: int | None
    failed_transfers: int | None
    expired: int | None

    def as_dict(self) -> dict[str, Any]:
        """Plain data for a serve record."""
        return asdict(self) | {"reasons": list(self.reasons)}


def health(metrics: Metrics, answer: str | None = "") -> Health:
    """Judge a serve that should be idle. `answer`: body of ``/health``, None when it did not answer 200."""
    running, waiting = (
        _count(metrics, "vllm:num_requests_running"),
        _count(metrics, "vllm:num_requests_waiting"),
    )
    failed, expired = _sum(metrics, _FAILURES), _sum(metrics, _EXPIRED)
    reasons = []
    if answer is None:
        reasons.append("/health does not answer")
    if running or waiting:
        reasons.append(f"not idle: {running or 0} running, {waiting or 0} waiting before the probe began")
    if failed:
        reasons.append(f"{failed} failed transfers between the pools")
    if expired:
        reasons.append(f"{expired} requests whose remote blocks never arrived")
    usage = metrics.largest("vllm:kv_cache_usage_perc")
    preemptions = _count(metrics, "vllm:num_preemptions")
    return Health(not reasons, tuple(reasons), running, waiting, usage, preemptions, failed, expired)


def _count(metrics: Metrics, name: str) -> int | None:
    total = metrics.total(name)
    return None if total is None else int(total)


def _sum(metrics: Metrics, names: tuple[str, ...]) -> int | None:
    found = [count for name in names if (count := _count(metrics, name)) is not None]
    return sum(found) if found else None
