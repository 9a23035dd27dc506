"""What a step and a handoff cost: the few formulas of the simulated physics, in integer nanoseconds.

The floor of a step (`step_ns`, `prefill_step_ns`) is what the expert all-to-all and reading the weights
take whatever the batch is; it is why concurrency is nearly free while requests find a place.
"""

from __future__ import annotations

from itertools import accumulate

from k3repro.twin._paging import Paging
from k3repro.twin._platform import Platform

__all__ = ["Costs"]

# A full decode graph replays in one launch; piecewise leaves attention (one launch a layer and more) to the
# host; without graphs every kernel is launched. Factors of `graph_ns`, the piecewise surplus.
_LONGEST_SPAN, _DRIFT = 1024, 500
_GRAPH = {"full": 0, "piecewise": 1, "none": 4}


class Costs:
    """Costs of one platform, each of whose lanes stands for `alike` equal ones."""

    def __init__(self, platform: Platform, pages: Paging, alike: int = 1) -> None:
        self._alike = alike
        self._platform = platform
        self._pages = pages
        change = _GRAPH[platform.graph] - _GRAPH[platform.native_graph]
        self._floor = max(1, platform.step_ns + change * platform.graph_ns)
        self._sequence = platform.step_sequence_ns
        self._context_ps = platform.step_context_ps
        self._longest_ps = platform.step_longest_ps if platform.kv_splits == "one" else 0
        self._reference = platform.c0_prompt_tokens

    def decode_step(self, running: int, context: int, longest: int = 0) -> int:
        """One decode step of the pool: `running` sequences, `context` tokens in the fullest lane, `longest`
        in the longest sequence, which costs time only where one KV split makes the step wait for it.

        The wall law was measured at `c0_prompt_tokens` of context, so only what lies above costs extra.
        """
        cost = self._floor + self._sequence * (running * self._alike - 1)
        if context > self._reference:
            cost += (context - self._reference) * self._context_ps // 1000
        if longest > self._reference:
            cost += (longest - self._reference) * self._longest_ps // 1000
        return cost

    @property
    def waits_for_longest(self) -> bool:
        """Whether the longest sequence changes what a step costs."""
        return bool(self._longest_ps)

    def steady_steps(self, cost: int, fullest: int, context: int, longest: int) -> int:
        """Decode steps until growing contexts change the cost of a step by one part in `_DRIFT`, at most
        `_LONGEST_SPAN`; `fullest` sequences grow in the lane with most tokens.
        """
        slope = fullest * self._context_ps if context + fullest * _LONGEST_SPAN > self._reference else 0
        if longest + _LONGEST_SPAN > self._reference:
            slope += self._longest_ps
        return min(_LONGEST_SPAN, max(1, cost * 1000 // (slope * _DRIFT))) if slope else _LONGEST_SPAN

    def prefill_step(self, tokens: int, pairs: int = 0) -> int:
        """One prefill step of the pool over `tokens` tokens of all lanes, which attend to `pairs` others."""
        return self._prefill(tokens * self._alike, pairs * self._alike)

    def prefill_steps(self, now: int, tokens: int, pairs: int, more: int) -> list[int]:
        """Ends of a prefill step that starts now and of `more` after it over as many tokens, each of which
        attends to a chunk more than in the step before.
        """
        spec = self._platform
        fixed, a_pair = self._prefill(tokens * self._alike, 0), spec.prefill_pair_fs * self._alike
        first, grown = pairs * a_pair, tokens * spec.prefill_lane_tokens * a_pair
        steps = [fixed + (first + count * grown) // 1_000_000 for count in range(more + 1)]
        return [now + end for end in accumulate(steps)]

    def _prefill(self, tokens: int, pairs: int) -> int:
        spec = self._platform
        return (
            spec.prefill_step_ns + spec.prefill_token_ns * tokens + spec.prefill_pair_fs * pairs // 1_000_000
        )

    def recompute(self, tokens: int) -> int:
        """A preempted request's cache computed again on its decode lane, a chunk a step."""
        budget = self._platform.prefill_lane_tokens
        whole, rest = divmod(tokens, budget)
        return whole * self._prefill(budget, 0) + (self._prefill(rest, 0) if rest else 0)

    def wire(self, prompt_tokens: int) -> int:
        """Time on the wire of one handoff: latents of the prompt and the recurrent state, per rank.

        A hybrid's prefill stops one token short; decode computes the last one itself.
        """
        pages = self._pages
        size = pages.state_bytes + pages.token_bytes * (prompt_tokens - 1)
        return size * 1_000_000_000 // self._platform.link_bytes_per_s

    def wire_bytes(self, prompt_tokens: int) -> int:
        """Bytes of one handoff over both ranks of a lane."""
        return 2 * (self._pages.state_bytes + self._pages.token_bytes * (prompt_tokens - 1))
