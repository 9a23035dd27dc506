"""What the ledger amounts to: which artifacts exist, which are superseded, which are withdrawn and why."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from k3repro.store._ledger import Entry


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """Why an artifact is withdrawn: it was retracted, or the one of its inputs that is withdrawn."""

    seal: str
    reason: str
    through: Withdrawal | None = field(default=None, repr=False, compare=False)

    @property
    def chain(self) -> tuple[str, ...]:
        """The way from it through inputs to the retracted artifact."""
        way, one = [self.seal], self.through
        while one is not None:
            way.append(one.seal)
            one = one.through
        return tuple(way)

    def __str__(self) -> str:
        way = " <- ".join(seal[:12] for seal in self.chain)
        return f"{way}: {self.reason}"


@dataclass(slots=True)
class State:
    """The ledger's entries applied in order, parents first."""

    seals: dict[str, Entry] = field(default_factory=dict)
    superseded: dict[str, tuple[str, str]] = field(default_factory=dict)
    retracted: dict[str, str] = field(default_factory=dict)
    removed: dict[str, str] = field(default_factory=dict)  # seal -> why its file left the folder

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> State:
        """Apply `entries`, which come parents first."""
        state = cls()
        for entry in entries:
            state._apply(entry)
        return state

    def _apply(self, entry: Entry) -> None:
        body = entry.body
        if entry.kind == "seal":
            # A seal entry for a superseded artifact reinstates it: the data went back to what it was.
            self.superseded.pop(entry.seal, None)
            self.removed.pop(entry.seal, None)
            self.seals.pop(entry.seal, None)
            self.seals[entry.seal] = entry
            for old in body.get("supersedes", ()):
                self.superseded[old] = (entry.seal, "sealed again with other data")
        elif entry.kind == "supersession":
            self.superseded[entry.seal] = (str(body.get("by", "")), str(body.get("reason", "")))
        elif entry.kind == "retraction":
            self.retracted[entry.seal] = str(body.get("reason", ""))
        elif entry.kind == "removal" and entry.seal in self.seals:
            self.removed[entry.seal] = str(body.get("reason", ""))

    def withdrawn(self) -> dict[str, Withdrawal]:
        """Every retracted artifact and everything derived from one."""
        found = {seal: Withdrawal(seal, reason) for seal, reason in self.retracted.items()}
        users = self._users()
        open_ = deque(sorted(found))
        while open_:
            source = found[open_.popleft()]
            for user in users.get(source.seal, ()):
                if user not in found:
                    found[user] = Withdrawal(user, source.reason, source)
                    open_.append(user)
        return found

    def _users(self) -> Mapping[str, list[str]]:
        users: dict[str, list[str]] = {}
        for seal, entry in self.seals.items():
            for source in entry.body.get("inputs", ()):
                users.setdefault(source, []).append(seal)
        return users

    def current(self) -> list[Entry]:
        """Seal entries neither superseded nor withdrawn, oldest first."""
        gone = self.superseded.keys() | self.withdrawn().keys()
        return [entry for seal, entry in self.seals.items() if seal not in gone]
