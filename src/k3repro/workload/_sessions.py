"""Sessions of turns: what a user asks one after the other, and which blocks of a prompt are seen again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Corpus", "Session", "Turn"]


@dataclass(frozen=True, slots=True)
class Turn:
    """One request: think time before it in seconds, tokens in and out, ids of the blocks its prompt
    consists of.

    The first `prefix_tokens` of the prompt are shared with every session of the same `group`. `prompt` is
    the text itself where a data set has it; `isl` and `osl` are then what a tokenizer, or an estimate, said.
    """

    delay_s: float
    isl: int
    osl: int
    blocks: tuple[int, ...] = ()
    prefix_tokens: int = 0
    prompt: str = ""


@dataclass(frozen=True, slots=True)
class Session:
    """Turns in order; block ids mean the same text within this session only.

    `arrival_s`: when it starts, in seconds after the run began; None in a closed loop: when a user is free.
    """

    name: str
    turns: tuple[Turn, ...]
    arrival_s: float | None = None
    group: int = 0

    def reused(self, index: int) -> int:
        """Leading blocks of a turn that the turn before had too: what a prefix cache can serve at best."""
        if index == 0:
            return 0
        before, now = self.turns[index - 1].blocks, self.turns[index].blocks
        return next(
            (k for k, (a, b) in enumerate(zip(before, now, strict=False)) if a != b),
            min(len(before), len(now)),
        )


@dataclass(frozen=True, slots=True)
class Corpus:
    """Sessions, their block size in tokens, where they come from, and what was left out of the source and
    why. `estimated`: token counts were estimated from text, not counted.
    """

    name: str
    block_size: int
    sessions: tuple[Session, ...]
    dropped: tuple[tuple[str, int], ...] = ()
    estimated: bool = False

    @property
    def turns(self) -> int:
        """Turns of all sessions."""
        return sum(len(session.turns) for session in self.sessions)

    def within(self, longest: int) -> Corpus:
        """Without the sessions of which a turn needs more than `longest` tokens; they are counted as
        dropped.
        """
        kept = tuple(s for s in self.sessions if all(t.isl + t.osl <= longest for t in s.turns))
        gone = len(self.sessions) - len(kept)
        dropped = (*self.dropped, (f"longer than {longest} tokens", gone)) if gone else self.dropped
        return Corpus(self.name, self.block_size, kept, dropped, self.estimated)


def joined(sessions: Iterable[Session]) -> list[Session]:
    """Turns of one session that stand on several lines, together and in order."""
    turns: dict[str, list[Turn]] = {}
    first: dict[str, Session] = {}
    for session in sessions:
        first.setdefault(session.name, session)
        turns.setdefault(session.name, []).extend(session.turns)
    return [
        Session(name, tuple(found), first[name].arrival_s, first[name].group) for name, found in turns.items()
    ]
