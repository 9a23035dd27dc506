"""Prompts out of block ids: the same id of the same session is always the same text, so prefixes really
are shared.
"""

from __future__ import annotations

from functools import lru_cache
from math import floor

from k3repro.probes.prompts import sentences, tag
from k3repro.probes.sizing import Sizing
from k3repro.workload import Turn

__all__ = ["Writer"]


class Writer:
    """Writes prompts of `block_size` tokens a block, sized by what words cost on this serve."""

    def __init__(self, sizing: Sizing, block_size: int, seed: str) -> None:
        self.block_size = block_size
        self._words = block_size / sizing.per_word
        self._overhead = sizing.overhead
        self._per_word = sizing.per_word
        self._seed = seed
        self._text = lru_cache(maxsize=65_536)(self._block)

    def prompt(self, session: str, turn: Turn) -> str:
        """The prompt of a turn; a trace without block ids gets text of its own, which no other turn
        shares.
        """
        wanted = max(1, round((turn.isl - self._overhead) / self._per_word))
        blocks = turn.blocks or tuple(range(-(-turn.isl // self.block_size)))
        scope = session if turn.blocks else f"{session}/{turn.isl}/{turn.osl}"
        pieces: list[str] = []
        have = 0
        for block in blocks:
            count = min(self._count(block), wanted - have)
            if count <= 0:
                break
            pieces.append(self._text(scope, block, count))
            have += count
        if have < wanted:
            pieces.append(self._text(scope, -1, wanted - have))
        return f"{tag(f'{self._seed}/{session}')} {' '.join(pieces)}"

    def _count(self, block: int) -> int:
        # A fraction of a word is carried by the id, so that a block has the same words wherever it stands.
        return floor((block + 1) * self._words) - floor(block * self._words)

    def _block(self, scope: str, block: int, words: int) -> str:
        return " ".join(sentences(f"{self._seed}/{scope}/{block}", words))
