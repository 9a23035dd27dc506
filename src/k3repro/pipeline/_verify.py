"""What counts as success of a stage: the declared artifacts exist, sealed and valid; nothing else does."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from k3repro.errors import K3Error
from k3repro.pipeline._job import Receipt
from k3repro.pipeline._spec import Stage
from k3repro.store import Store


def problem(stage: Stage, receipts: Sequence[Receipt], inputs: Sequence[str], store: Store) -> str:
    """Why the stage did not do what it declares, as one line; "" when it did.

    `inputs` are the seals the declared inputs had before the run: an artifact derived from anything else
    would make the stage look fresh when that other thing changes.
    """
    return (
        _missing(stage, receipts, store)
        or _unexpected(stage, receipts)
        or _undeclared(receipts, inputs, store)
        or _invalid(stage, receipts, store)
    )


def _missing(stage: Stage, receipts: Sequence[Receipt], store: Store) -> str:
    sealed = [_label(receipt) for receipt in receipts]
    known = {*sealed, *(receipt.name for receipt in receipts)}
    for item in stage.seals:
        # The store redacts subjects (a URL loses userinfo, a node gets a pseudonym); the declaration is not.
        if item in known or store.redactor.text(item) in known:
            continue
        if not sealed:
            return f"every cell ran but nothing was sealed; the stage declares {', '.join(stage.seals)}"
        near = difflib.get_close_matches(item, sealed, n=1, cutoff=0.5)
        hint = f"; did you mean {near[0]}?" if near else ""
        return f"every cell ran but {item} was not sealed; it sealed {', '.join(sealed)}{hint}"
    return ""


def _unexpected(stage: Stage, receipts: Sequence[Receipt]) -> str:
    if stage.view and receipts:
        return f"it is a view but sealed {_label(receipts[0])}; list it in seals and drop view"
    return ""


def _undeclared(receipts: Sequence[Receipt], inputs: Sequence[str], store: Store) -> str:
    known = {*inputs, *(receipt.seal for receipt in receipts)}
    for receipt in receipts:
        for seal in receipt.inputs:
            if seal not in known and not _own_past(seal, receipt, store):
                return (
                    f"{_label(receipt)} was derived from {_named(seal, store)}; add it to the stage's inputs"
                )
    return ""


def _own_past(seal: str, receipt: Receipt, store: Store) -> bool:
    """Whether an input is an earlier version of the artifact itself, from which it tells its history."""
    try:
        artifact = store.find(seal)
    except K3Error:
        return False
    return (artifact.name, artifact.subject) == (receipt.name, receipt.subject) and seal != receipt.seal


def _named(seal: str, store: Store) -> str:
    try:
        artifact = store.find(seal)
    except K3Error:
        return seal[:12]
    label = f"{artifact.name}@{artifact.subject} ({seal[:12]})"
    return f"{label}, which it does not declare or which changed meanwhile"


def _invalid(stage: Stage, receipts: Sequence[Receipt], store: Store) -> str:
    for receipt in receipts:
        try:
            artifact = store.find(receipt.seal)
            counted = artifact.recount()
        except K3Error as error:
            return f"{_label(receipt)} was sealed but is not valid: {error}"
        if counted != artifact.data:
            said = f"its rows give digest {counted[:12]}, not {artifact.data[:12]}"
            return f"{_label(receipt)} was sealed but {said}"
        if stage.verdict == "ok" and artifact.verdict.get("ok") is False:
            reasons = "; ".join(map(str, artifact.verdict.get("reasons", []))) or "no reason given"
            return f"{_label(receipt)} was sealed (and kept) but its verdict is not ok: {reasons}"
    return ""


def _label(receipt: Receipt) -> str:
    return f"{receipt.name}@{receipt.subject}"
