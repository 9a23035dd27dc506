"""What load a wave really delivered: achieved against requested concurrency, and the inputs of Little's
law.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from k3repro.client._model import RequestRecord

__all__ = ["WaveLoad", "wave_load"]


@dataclass(frozen=True, slots=True)
class WaveLoad:
    """Load of one wave; the plateau excludes ramp (before the peak is first reached) and drain (after the
    last send).

    `achieved` is the time average in flight on the plateau, `peak` the most at one instant. Little's law
    says that the mean in flight over the whole wave is `rate_per_s` times `residence_s`; `mean_in_flight`
    is measured independently.
    """

    requested: int
    achieved: float
    peak: int
    plateau_s: float
    mean_in_flight: float
    rate_per_s: float
    residence_s: float

    @property
    def ratio(self) -> float:
        """Achieved over requested."""
        return self.achieved / self.requested

    def as_dict(self) -> dict[str, Any]:
        """All fields and the ratio, for an artifact."""
        return {**asdict(self), "ratio": self.ratio}


def wave_load(records: Sequence[RequestRecord], concurrency: int) -> WaveLoad:
    """Load that `records` of one wave delivered, against the `concurrency` asked for. Unsent requests do
    not count.
    """
    sent = [record for record in records if record.done_ns > record.sent_ns]
    if not sent:
        return WaveLoad(concurrency, 0.0, 0, 0.0, 0.0, 0.0, 0.0)
    changes = sorted([(record.sent_ns, 1) for record in sent] + [(record.done_ns, -1) for record in sent])
    levels = _levels(changes)
    peak = max(level for _, level in levels)
    begin = next(when for when, level in levels if level == peak)
    last_send = max(record.sent_ns for record in sent)
    first_done = min(record.done_ns for record in sent if record.done_ns > begin)
    end = max(last_send, first_done)
    start, stop = changes[0][0], changes[-1][0]
    span_s = (stop - start) / 1e9
    return WaveLoad(
        concurrency,
        _average(levels, begin, end),
        peak,
        (end - begin) / 1e9,
        _average(levels, start, stop),
        len(sent) / span_s,
        sum(record.done_ns - record.sent_ns for record in sent) / len(sent) / 1e9,
    )


def _levels(changes: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """(instant, in flight from then on); changes at one instant are taken together."""
    levels: list[tuple[int, int]] = []
    level = 0
    for when, change in changes:
        level += change
        if levels and levels[-1][0] == when:
            levels[-1] = (when, level)
        else:
            levels.append((when, level))
    return levels


def _average(levels: Sequence[tuple[int, int]], begin: int, end: int) -> float:
    area = 0
    for (when, level), (after, _) in zip(levels, [*levels[1:], (end, 0)], strict=True):
        area += level * max(0, min(after, end) - max(when, begin))
    return (
        area / (end - begin) if end > begin else float(max(level for when, level in levels if when <= begin))
    )
