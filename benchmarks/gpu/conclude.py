"""Derive what the sealed runs say: the decode law, and predictions beside measurements.

``python conclude.py [--artifacts FOLDER]``, after the stores that came back were copied into that folder.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from predict import SUBJECT

from k3repro.probes.decode_law import fit_decode_law
from k3repro.probes.launch_check import check_launches
from k3repro.store import Artifact, Store


def measured(store: Store, name: str) -> list[Artifact]:
    """Measured artifacts of this geometry, oldest first."""
    found = store.artifacts(name=name, tier="measured")
    return [artifact for artifact in found if SUBJECT in artifact.subject]


def conclude(store: Store) -> list[Artifact]:
    """The two derivations."""
    predictions = store.artifacts(name="launch-predictions", subject=SUBJECT)[0]
    kinds = [measured(store, name) for name in ("engine-start", "capacity-grid", "hand-off")]
    inputs = [predictions, *(artifact for kind in kinds for artifact in kind)]
    return [
        store.derive(fit_decode_law, measured(store, "decode-context"), SUBJECT),
        store.derive(check_launches, inputs, SUBJECT),
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--artifacts", type=Path)
    for sealed in conclude(Store(parser.parse_args().artifacts)):
        print(f"{sealed.name}@{sealed.subject} {sealed.tier} {sealed.basis} {sealed.seal[:12]}")
