"""What speaks for a measured value beside its own word, for its hover card."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from k3repro.store import Store, read_signed

__all__ = ["SELF_DECLARED", "confirmations", "evidence_of", "vouched"]

SELF_DECLARED = "self-declared"


def vouched(store: Store, signers: Path | None = None) -> dict[str, frozenset[str]]:
    """Seal -> the names that signed a ledger head which its entry belongs to."""
    signed = read_signed(store.root, store.ledger, signers)
    return {seal: names for seal, entry in store.state().seals.items() if (names := signed.of(entry))}


def evidence_of(seal: str, artifacts: Mapping[str, Mapping[str, Any]], names: frozenset[str]) -> list[str]:
    """What speaks for what was measured in or behind an artifact; nothing for what rests on no measurement.

    artifacts: rows of the catalog's view by seal. Counters come from the server that they are about, and a
    second serve may be run by the same hand: unless somebody signed, neither makes more than `self-declared`.
    """
    row = artifacts[seal]
    if "measured" not in (row["tier"], row["basis"]):
        return []
    if not names:
        return [SELF_DECLARED]
    runs = _measured(seal, artifacts)
    words = [f"signed by {', '.join(sorted(names))}"]
    if runs and all(_counters_agree(run) for run in runs):
        words.append("counters agree")
    if runs and all(confirmations(str(run["seal"]), artifacts) for run in runs):
        words.append("reproduced by a second serve")
    return words


def confirmations(seal: str, artifacts: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The artifacts that hold a run against the same probe on another serve, and found it again."""
    return [
        other
        for other, row in sorted(artifacts.items())
        if row["name"] == "confirmation" and row["verdict_ok"] and seal in (row["inputs"] or ())
    ]


def _measured(seal: str, artifacts: Mapping[str, Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The measured runs that an artifact is or rests on."""
    found, open_, seen = [], [seal], set[str]()
    while open_:
        row = artifacts.get(open_.pop())
        if row is None or row["seal"] in seen:
            continue
        seen.add(str(row["seal"]))
        if row["tier"] == "measured":
            found.append(row)
        open_.extend(row["inputs"] or ())
    return found


def _counters_agree(row: Mapping[str, Any]) -> bool:
    """Whether the server showed counters, and the run stands: a run that parts from them is not ok."""
    evidence = json.loads(row["serve"] or "{}").get("evidence") or []
    kinds = {item.get("kind") for item in evidence if isinstance(item, dict) and item.get("value")}
    return bool(row["verdict_ok"]) and "metrics" in kinds
