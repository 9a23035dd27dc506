"""The client's own headroom: what its CPU share means, held between two other readings of the same work."""

from __future__ import annotations

import asyncio
import resource
import threading
import time

from k3repro.probes.wave_monitor import Headroom


def used() -> float:
    """CPU seconds of this process, all threads, as the kernel accounts them."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def work() -> float:
    """Some computing in a thread of its own; the CPU seconds that this thread took."""
    took: list[float] = []

    def compute() -> None:
        begin = time.thread_time()
        sum(n * n for n in range(300_000))
        took.append(time.thread_time() - begin)

    worker = threading.Thread(target=compute)
    worker.start()
    worker.join()
    return took[0]


def test_the_cpu_share_is_all_cpu_time_of_the_client_over_wall_time() -> None:
    """A client that got no core shows a small share and late timers: the share alone clears nobody."""
    headroom, inside = Headroom(), []

    async def attended() -> None:
        async with headroom.watch():
            began = time.perf_counter()
            inside.extend((work(), time.perf_counter() - began))

    cpu, wall = used(), time.perf_counter()
    asyncio.run(attended())
    cpu, wall = used() - cpu, time.perf_counter() - wall
    assert headroom.cpu_share is not None
    slack = 0.02  # the kernel accounts in ticks
    assert (inside[0] - slack) / wall <= headroom.cpu_share <= (cpu + slack) / inside[1]
