"""Shipped artifacts: whatever rests on a simulated run, or ran a core itself, says simulated."""

from __future__ import annotations

from pathlib import Path

from k3repro.store import Artifact, Store

ROOT = Path(__file__).parents[1] / "artifacts"
# Producers that make cores, by what they seal: each was seen doing so.
CORES = {"twin-calibration", "twin-fidelity", "twin-journey", "level-fidelity", "relation"}


def test_every_value_of_the_twin_wears_its_badge() -> None:
    store = Store(ROOT)
    known = {a.seal: a for a in store.artifacts(current=False) if a.path.is_file()}

    def simulated(artifact: Artifact, seen: set[str]) -> bool:
        seen.add(artifact.seal)
        own = artifact.tier == "simulated" or "simulated" in artifact.document.get("observed", ())
        inputs = [known[seal] for seal in artifact.inputs if seal in known and seal not in seen]
        return own or any(simulated(each, seen) for each in inputs)

    for artifact in store.artifacts():
        if simulated(artifact, set()):
            assert artifact.basis in ("simulated", "unverified"), f"{artifact.name}@{artifact.subject}"
    seen = {a.name for a in store.artifacts() if "simulated" in a.document.get("observed", ())}
    assert seen >= CORES
