"""Throughputs that may be compared: same tokens, same number of GPUs or normalised; others are refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from k3repro.errors import InputError

__all__ = ["Throughput", "compare", "rank"]


@dataclass(frozen=True, slots=True)
class Throughput:
    """A rate in tokens/s of `gpus` GPUs. `tokens` says what is counted: "text", or "text+image".

    `workload` (for example "500/200") names the shape; `normalised` rates are per GPU.
    """

    name: str
    value: float
    tokens: str
    gpus: int
    workload: str
    normalised: bool = False

    def __post_init__(self) -> None:
        if self.gpus < 1 or not self.value > 0:
            raise InputError(f"{self.name}: a throughput is positive and of at least one GPU")

    def per_gpu(self) -> Throughput:
        """The rate per GPU: what may stand beside a deployment of another size."""
        return self if self.normalised else replace(self, value=self.value / self.gpus, normalised=True)


def compare(a: Throughput, b: Throughput) -> float:
    """a over b.

    Raises:
        InputError: different tokens, different workloads, or different GPU counts that are not normalised.
    """
    _same(a, b)
    return a.value / b.value


def rank(rates: Sequence[Throughput]) -> list[Throughput]:
    """Highest first, names in order where equal.

    Raises:
        InputError: as `compare`, for any two of them.
    """
    for other in rates[1:]:
        _same(rates[0], other)
    return sorted(rates, key=lambda rate: (-rate.value, rate.name))


def _same(a: Throughput, b: Throughput) -> None:
    pair = f"{a.name} and {b.name}"
    if a.tokens != b.tokens:
        raise InputError(
            f"{pair} count different tokens ({a.tokens}, {b.tokens})",
            fix="Image tokens are no text tokens: rank them apart.",
        )
    if a.workload != b.workload:
        raise InputError(f"{pair} have different workloads ({a.workload}, {b.workload})")
    if a.normalised != b.normalised or (not a.normalised and a.gpus != b.gpus):
        raise InputError(
            f"{pair} are of {a.gpus} and {b.gpus} GPUs", fix="Compare .per_gpu(), and say that you did."
        )
