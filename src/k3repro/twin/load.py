"""A workload on the core alone, without text, bytes or a client: what sizing and studies simulate."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence

from k3repro.twin._core import Core
from k3repro.twin._request import Flight
from k3repro.workload import Session

__all__ = ["play"]

_S = 1_000_000_000
_NEVER = 1 << 62


class _Prompts:
    """Hashes of the full engine blocks of a prompt, from what a turn says its prompt shares."""

    def __init__(self, block_tokens: int, session_block: int) -> None:
        self._block = block_tokens
        self._each = max(1, block_tokens // session_block)
        self._known: dict[object, int] = {}

    def hashes(self, session: Session, turn: int) -> list[int]:
        """One number a block, the same where everything up to its end is the same."""
        spoken = session.turns[turn]
        shared = [(session.group, k) for k in range(spoken.prefix_tokens // self._block)]
        found: list[int] = []
        key: object = None
        for part in shared:
            key = (key, part)
            found.append(self._known.setdefault(key, len(self._known)))
        for start in range(0, len(spoken.blocks) - self._each + 1, self._each):
            key = (found[-1] if found else session.name, spoken.blocks[start : start + self._each])
            found.append(self._known.setdefault(key, len(self._known)))
        return found


def play(
    core: Core, sessions: Sequence[Session], *, users: int = 0, think_s: float = 0.0, session_block: int = 64,
    stop: Callable[[Flight], bool] | None = None,
) -> list[Flight]:  # fmt: skip
    """Requests that ended, in the order they were sent; `times` of each holds its first and last token.

    In a closed loop `users` sessions are under way at a time, the next starts `think_s` seconds after one
    has ended. With `users` 0 sessions start at their `arrival_s`. Turns follow after their own delay.
    `stop` sees every request that ends, and ends the run by returning True.
    """
    core.keep_ends_only()
    prompts = _Prompts(core.pages.block_tokens, session_block) if core.platform.prefix_caching else None
    waiting = iter(range(min(users, len(sessions)) if users else len(sessions), len(sessions)))
    due = [
        (0 if users else round((session.arrival_s or 0.0) * _S), number, 0)
        for number, session in enumerate(sessions[: users or None])
    ]
    heapq.heapify(due)
    sent: dict[int, tuple[int, int]] = {}
    done: list[Flight] = []
    while due or core.flights:
        when = due[0][0] if due else _NEVER
        wake = core.next_wake_ns()
        if wake is not None and wake < when:
            ended = core.advance(wake)
        elif due:
            ended = core.advance(when)
            _, number, turn = heapq.heappop(due)
            spoken = sessions[number].turns[turn]
            hashes = prompts.hashes(sessions[number], turn) if prompts else ()
            sent[core.submit(spoken.isl, spoken.osl, hashes).number] = (number, turn)
        else:
            break  # a defect stopped the cluster
        for flight in ended:
            done.append(flight)
            if stop is not None and stop(flight):
                return sorted(done, key=lambda flight: flight.number)
            number, turn = sent.pop(flight.number)
            if turn + 1 < len(sessions[number].turns):
                pause = sessions[number].turns[turn + 1].delay_s
                heapq.heappush(due, (flight.finished_ns + round(pause * _S), number, turn + 1))
            elif users and (following := next(waiting, None)) is not None:
                heapq.heappush(due, (flight.finished_ns + round(think_s * _S), following, 0))
    return sorted(done, key=lambda flight: flight.number)
