"""The hand-off law: bytes one request moves from prefill to decode, on one rank, and the time a link takes.

A connector that registers whole cache regions moves the recurrent state of every slot of every state group,
padding layers included, and one whole pool block per started block of the prompt. Where there is recurrent
state prefill stops one token early: decode computes the last token itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from k3repro.capacity._blocks import BlockLaw
from k3repro.capacity._law import Law
from k3repro.errors import InputError


@dataclass(frozen=True, slots=True)
class Handoff:
    """What a request hands over on one rank: `state_pages` of `state_bytes`, `blocks` of `block_bytes`."""

    state_pages: int
    state_bytes: int
    blocks: int
    block_bytes: int

    @property
    def bytes(self) -> int:
        """All of it."""
        return self.state_pages * self.state_bytes + self.blocks * self.block_bytes

    def seconds(self, bytes_per_s: float) -> float:
        """Time on a link of this rate that carries nothing else.

        Raises:
            InputError: a rate that is not positive.
        """
        if not bytes_per_s > 0:
            raise InputError("a link moves more than nothing", fix="Give bytes per second, for example 50e9.")
        return self.bytes / bytes_per_s


def state_pages(law: BlockLaw) -> int:
    """State pages of a request: state groups times the layers of the widest group."""
    groups = [group for group in law.groups if group.kind == "state"]
    return len(groups) * max((len(group.pages) for group in law.groups), default=0)


def handoff(law: BlockLaw, prompt_tokens: int) -> Handoff:
    """What one request of `prompt_tokens` hands over on one rank.

    Raises:
        InputError: no prompt, or layers that keep a window (what of it moves is not known).
    """
    if prompt_tokens < 1:
        raise InputError(f"a prompt has at least one token, not {prompt_tokens}")
    if any(group.kind == "window" for group in law.groups):
        raise InputError("what a sliding window hands over is not known")
    pages = state_pages(law)
    crossed = prompt_tokens - bool(pages)
    grows = [group for group in law.groups if group.kind == "full"]
    blocks = sum(-(-crossed // (group.block_tokens * law.engine.dcp)) for group in grows)
    return Handoff(pages, law.state_bytes, blocks, law.pool_block_bytes)


def handoff_law(law: BlockLaw) -> Law:
    """Bytes per request and rank as a formula in ``prompt`` (tokens)."""
    pages = state_pages(law)
    crossed = ["-", ["var", "prompt"], int(bool(pages))]
    terms = [
        ["*", law.pool_block_bytes, ["ceil", ["/", crossed, group.block_tokens * law.engine.dcp]]]
        for group in law.groups
        if group.kind == "full"
    ]
    return Law(
        "hand-off law", ["+", pages * law.state_bytes, *terms], "bytes", inputs={"state_pages": pages},
        range={"prompt": (1, 2**40)},
    )  # fmt: skip
