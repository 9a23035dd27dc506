"""A stage that seals its artifact again replaces what it sealed before, whatever changed in between."""

from __future__ import annotations

from collections.abc import Sequence

from k3repro.pipeline._job import Receipt
from k3repro.pipeline._spec import Stage
from k3repro.store import OBSERVED, Artifact, Store, current_producer


def supersede_older(stage: Stage, receipts: Sequence[Receipt], store: Store, reason: str) -> list[str]:
    """Supersede other current artifacts of the declared seals by the same producer; returns their seals.

    The store does this itself while parameters are equal; a changed parameter or document is the stage's
    own business, and without it a page would find two current rows.
    """
    kept = {receipt.seal for receipt in receipts}
    replaced: list[str] = []
    for receipt in receipts:
        if f"{receipt.name}@{receipt.subject}" not in stage.seals:
            continue
        new = store.find(receipt.seal)
        for old in store.artifacts(receipt.name, receipt.subject):
            # Another serve's artifact (the gate of a restart) is not this one made again.
            same = _identity(old) == _identity(new)
            if same and old.seal not in kept and new.tier not in OBSERVED:
                store.supersede(old.seal, new.seal, reason)
                replaced.append(old.seal)
    return replaced


def _identity(artifact: Artifact) -> tuple[str, ...]:
    serve = str(artifact.serve.get("id", "")) if artifact.serve else ""
    return (current_producer(artifact.producer), artifact.kind, artifact.tier, serve)
