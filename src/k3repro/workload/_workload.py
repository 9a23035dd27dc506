"""What users ask of a serve: how many, when, how long, and what their prompts share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any

from k3repro.errors import UsageError
from k3repro.workload._arrivals import ClosedLoop, OpenLoop
from k3repro.workload._lengths import Lengths, parse_lengths
from k3repro.workload._sessions import Corpus, Session, Turn

__all__ = ["Workload"]

_ISL, _OSL, _ALONE = Lengths("fixed", (1024,)), Lengths("fixed", (256,)), ClosedLoop(1)


@dataclass(frozen=True, slots=True)
class Workload:
    """One description for probes, twin and sizing.

    Single requests of `isl` and `osl` tokens, or the sessions of `corpus`; `arrival` says when they start.
    With `prefix_tokens`, each prompt begins with that many tokens shared by all sessions of its group
    (`prefix_groups` of them, taking turns). A trace with arrival times keeps them unless `arrival` is open.
    """

    isl: Lengths = _ISL
    osl: Lengths = _OSL
    arrival: ClosedLoop | OpenLoop = _ALONE
    prefix_tokens: int = 0
    prefix_groups: int = 1
    corpus: Corpus | None = None

    def __post_init__(self) -> None:
        if self.prefix_tokens < 0 or self.prefix_groups < 1:
            raise UsageError("a shared prefix has at least 0 tokens and 1 group", fix="--prefix-tokens 512.")
        if self.corpus is None and self.prefix_tokens and self.prefix_tokens >= self.isl.highest:
            raise UsageError(
                f"a shared prefix of {self.prefix_tokens} tokens leaves nothing of {self.isl} prompt tokens",
                fix="Give a shorter prefix or longer prompts.",
            )

    def sessions(self, count: int = 0, seed: int | str = 0, *, duration_s: float = 0.0) -> list[Session]:
        """`count` sessions in order of arrival (an open loop: also as many as start within `duration_s`).

        In a closed loop `arrival_s` is None: a session starts when a user is free. A corpus shorter than
        `count` starts over under other names. The same seed gives the same sessions on every machine.

        Raises:
            UsageError: no end: neither `count`, nor `duration_s` of an open loop, nor a corpus.
        """
        times: list[float] | None = None
        if isinstance(self.arrival, OpenLoop):
            times = self.arrival.arrivals(seed, count=count, duration_s=duration_s)
            count = len(times)
        elif count < 1 and self.corpus is None:
            raise UsageError("how many requests?", fix="Give --requests or --duration.")
        found = self._of_corpus(count) if self.corpus else self._drawn(count, seed)
        if times is None:
            return found
        return [
            Session(session.name, session.turns, when, session.group)
            for session, when in zip(found, times, strict=True)
        ]

    def _drawn(self, count: int, seed: int | str) -> list[Session]:
        ins, outs = self.isl.draw(count, f"{seed}/isl"), self.osl.draw(count, f"{seed}/osl")
        return [
            Session(
                f"{index:05d}",
                (Turn(0.0, isl, osl, prefix_tokens=min(self.prefix_tokens, isl - 1)),),
                group=index % self.prefix_groups,
            )
            for index, (isl, osl) in enumerate(zip(ins, outs, strict=True))
        ]

    def _of_corpus(self, count: int) -> list[Session]:
        assert self.corpus is not None
        sessions = self.corpus.sessions
        if count <= len(sessions):
            return list(sessions[: count or None])
        return [
            session
            if (copy := index // len(sessions)) == 0
            else Session(f"{session.name}.{copy}", session.turns, None, session.group)
            for index, session in enumerate(islice(cycle(sessions), count))
        ]

    @property
    def uniform(self) -> bool:
        """Whether all requests are equal, and share what they share with all others."""
        fixed = self.isl.kind == self.osl.kind == "fixed"
        return fixed and self.corpus is None and self.prefix_groups == 1

    @property
    def mean_isl(self) -> float:
        """Mean prompt tokens of a request."""
        turns = (
            [turn.isl for session in self.corpus.sessions for turn in session.turns] if self.corpus else []
        )
        return sum(turns) / len(turns) if turns else self.isl.mean

    @property
    def mean_osl(self) -> float:
        """Mean reply tokens of a request."""
        turns = (
            [turn.osl for session in self.corpus.sessions for turn in session.turns] if self.corpus else []
        )
        return sum(turns) / len(turns) if turns else self.osl.mean

    @property
    def longest(self) -> int:
        """Tokens of the longest request, prompt and reply together."""
        if self.corpus:
            return max(turn.isl + turn.osl for turn in self._turns())
        return self.isl.highest + self.osl.highest

    def _turns(self) -> list[Turn]:
        return [turn for session in self.corpus.sessions for turn in session.turns] if self.corpus else []

    def as_dict(self) -> dict[str, Any]:
        """The description as plain data; `Workload.of` reads it back (a corpus is named, not repeated)."""
        loop = self.arrival
        arrival: dict[str, Any] = (
            {"users": loop.users, "think_s": loop.think_s}
            if isinstance(loop, ClosedLoop)
            else {
                "rate": loop.rate_per_s,
                "arrival": loop.process,
                "burst": loop.burst,
                "ramp_s": loop.ramp_s,
            }
        )
        shared = {"prefix_tokens": self.prefix_tokens, "prefix_groups": self.prefix_groups}
        lengths = {"isl": str(self.isl), "osl": str(self.osl)}
        return (lengths if self.corpus is None else {"corpus": self.corpus.name}) | arrival | shared

    @classmethod
    def of(cls, given: Mapping[str, Any], corpus: Corpus | None = None) -> Workload:
        """From plain data (TOML, JSON, options): isl, osl, users and think_s, or rate, arrival, burst,
        ramp_s; prefix_tokens, prefix_groups.

        Raises:
            UsageError: an unknown key, or both users and a rate.
        """
        known = {"isl", "osl", "users", "think_s", "rate", "arrival", "burst", "ramp_s"}
        if unknown := set(given) - known - {"prefix_tokens", "prefix_groups", "corpus"}:
            raise UsageError(
                f"a workload has no {', '.join(sorted(unknown))}", fix=f"It has {sorted(known)}."
            )
        if "users" in given and "rate" in given:
            raise UsageError("users or a rate, not both", fix="users: closed loop; rate: open loop.")
        loop: ClosedLoop | OpenLoop = ClosedLoop(int(given.get("users", 1)), float(given.get("think_s", 0.0)))
        if "rate" in given:
            loop = OpenLoop(
                float(given["rate"]), given.get("arrival", "poisson"), int(given.get("burst", 8)),
                float(given.get("ramp_s", 0.0)),
            )  # fmt: skip
        return cls(
            parse_lengths(given.get("isl", 1024)), parse_lengths(given.get("osl", 256)), loop,
            int(given.get("prefix_tokens", 0)), int(given.get("prefix_groups", 1)), corpus,
        )  # fmt: skip
