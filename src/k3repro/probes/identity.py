"""One serve or several: who answers is asked again after every wave on the wall clock.

A restart between two rungs, or two engines behind one URL, fail no request; each changes who answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from k3repro.probes.serve_facts import serve_facts

__all__ = ["Identity", "parted"]


def parted(first: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """How two serve records differ in what a serve never changes; empty when they do not.

    What one of them does not tell says nothing: metrics that stopped answering make no other serve.
    """
    for what, before, after in (
        ("start time", first.get("started"), now.get("started")),
        ("version", _version(first), _version(now)),
        ("models", sorted(first.get("models", [])), sorted(now.get("models", []))),
    ):
        if before and after and before != after:
            return f"{what} {after} instead of {before}"
    known = now.get("behind", {})
    for url, engine in first.get("behind", {}).items():
        if url in known and (found := parted(engine, known[url])):
            return f"{url}: {found}"
    return ""


def _version(facts: Mapping[str, Any]) -> Any:
    return (facts.get("engine") or {}).get("version")


class Identity:
    """Who answered a run: `first` is the record it began with, `others` the ids of serves that are not it."""

    def __init__(self, first: Mapping[str, Any]) -> None:
        self._first = first
        self._fingerprints: dict[str, str] = {}
        self.others: dict[str, str] = {}

    def look(self, target: Any, rung: str, records: Sequence[Any]) -> None:
        """After a wave: ask who is there, and note the fingerprints its answers carried."""
        self.note(serve_facts(target), rung)
        for record in records:
            if record.fingerprint:
                self._fingerprints.setdefault(record.fingerprint, rung)

    def note(self, facts: Mapping[str, Any], where: str) -> None:
        """Hold another record against the first."""
        if how := parted(self._first, facts):
            self.others.setdefault(str(facts["id"]), f"{where}: {how}")

    def reasons(self) -> list[str]:
        """Why this was not one serve all along."""
        found = []
        if self.others:
            seen = "; ".join(self.others.values())
            found.append(f"stitched from {1 + len(self.others)} serves: another one answered, {seen}")
        if len(self._fingerprints) > 1:
            seen = ", ".join(f"{print_} at {rung}" for print_, rung in self._fingerprints.items())
            found.append(f"answers carry {len(self._fingerprints)} system fingerprints: {seen}")
        return found
