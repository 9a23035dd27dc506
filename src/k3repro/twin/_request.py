"""One request inside the core, and the states it passes."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["DECODE", "DONE", "HOLD", "PREFILL", "QUEUED", "STATES", "TRANSFER", "WAITING", "Flight"]

# Queued at its prefill lane; prefill in progress; the prefill lane holds the finished cache; waiting for a
# decode slot and blocks; both reserved and the cache on the wire (or being computed again); decoding; gone.
STATES = ("queued", "prefill", "hold", "waiting", "transfer", "decode", "done")
QUEUED, PREFILL, HOLD, WAITING, TRANSFER, DECODE, DONE = range(7)


class Flight:
    """One request inside the core. Times are nanoseconds of the core's clock; -1 means not yet.

    `blocks` are held in the decode pool, `source_blocks` in the prefill pool. `chunks` lists the prefill
    steps it took part in as (start, end, tokens), `preempted_ns` when it lost its place.
    """

    # Defaults live in the class: a short request never touches most of them.
    held: Sequence[int] = ()
    state = QUEUED
    prefill_pool = decode_pool = 0
    cached_tokens = source_blocks = blocks = order = drained = 0
    prefill_start_ns = prefill_end_ns = ready_ns = transfer_ns = activated_ns = -1
    first_step = finish_step = finished_ns = -1
    cancelled = False
    mark = ""
    preempted_ns: Sequence[int] = ()

    def __init__(
        self,
        number: int,
        lane: int,
        prompt_tokens: int,
        output_tokens: int,
        arrival_ns: int,
        hashes: Sequence[int] = (),
    ) -> None:
        self.number = number
        self.lane = lane
        self.prompt_tokens = prompt_tokens
        self.output_tokens = output_tokens
        self.arrival_ns = arrival_ns
        self.hashes = hashes
        self.prefill_left = prompt_tokens
        self.chunks: list[tuple[int, int, int]] = []
        self.times: list[int] = []
