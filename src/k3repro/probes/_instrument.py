"""The client's own self-test, once per process: what it can do here, stored with every wall-clock run."""

from __future__ import annotations

from functools import cache

from k3repro.client import SelfTest, Target, selftest


def instrument(target: Target) -> SelfTest | None:
    """The self-test for a wall-clock target; None in virtual time, where the client takes no time.

    Raises:
        InvalidRun: the client fails against a server that answers at once.
    """
    return None if target.clock == "virtual" else _measured()


def measured_already() -> bool:
    """Whether this process knows what its client can do, so that nobody has to wait for it."""
    return bool(_measured.cache_info().currsize)


@cache
def _measured() -> SelfTest:
    # Shorter than `k3repro selftest client`: enough for a limit of one half, and it runs before every ladder.
    return selftest(requests=1000, repeats=3)
