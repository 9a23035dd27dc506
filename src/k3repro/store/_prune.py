"""Taking superseded files out of the folder, on the record: the ledger keeps what they were, and why.

Only what can be made again goes. An observation (tier measured or unverified), whatever rests on one, a
current artifact, a withdrawn one and the inputs of any of these stay: nothing that is cited can be removed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from k3repro.errors import InputError
from k3repro.store._findings import Finding
from k3repro.store._ledger import Entry
from k3repro.store._state import State
from k3repro.store._tier import OBSERVED

if TYPE_CHECKING:
    from k3repro.store._store import Store


def prunable(state: State) -> list[Entry]:
    """Seal entries whose files nothing needs any more, oldest first; those already removed are left out."""
    needed = _needed(state)
    return [entry for seal, entry in state.seals.items() if seal not in needed and seal not in state.removed]


def _needed(state: State) -> set[str]:
    current = {entry.seal for entry in state.current()} | state.withdrawn().keys()
    observed = {
        seal
        for seal, entry in state.seals.items()
        if entry.body["tier"] in OBSERVED or entry.body["basis"] in OBSERVED
    }
    found, waiting = set[str](), [seal for seal in state.seals if seal in current | observed]
    while waiting:
        seal = waiting.pop()
        if seal not in found and seal in state.seals:
            found.add(seal)
            waiting.extend(state.seals[seal].body.get("inputs", ()))
    return found


def prune(store: Store, reason: str) -> list[Entry]:
    """Record the removal of every prunable artifact, then unlink its file; returns what went.

    A kill between the two leaves files whose removal is recorded: the next call unlinks them.

    Raises:
        InputError: no reason.
    """
    if not reason.strip():
        raise InputError("a removal needs a reason", fix='Give one: --reason "...".')
    went = prunable(store.state())
    for entry in went:
        store.ledger.append("removal", {"seal": entry.seal, "reason": reason})
    state = store.state()
    for seal in state.removed:
        (store.root / str(state.seals[seal].body["file"])).unlink(missing_ok=True)
    return went


def removal_findings(state: State) -> Iterator[Finding]:
    """Removals on record of something that another artifact, or a page, still needs."""
    needed = _needed(state)
    for seal in state.removed:
        if seal in needed:
            where = str(state.seals[seal].body["file"])
            yield Finding("removal-wrong", where, "removed although it is current, observed or an input")
