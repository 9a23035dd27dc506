"""A stage that seals again replaces its own older artifact, and never an observation."""

from __future__ import annotations

import pytest
from pipeline_project import Project

from k3repro.pipeline import Receipt, Stage
from k3repro.pipeline._replace import supersede_older

TWIN = {"fingerprint": "k3repro-twin"}
REAL = {"evidence": [{"kind": "build_info", "value": "x"}, {"kind": "metrics", "value": "y"}]}
STAGE = Stage("tiny", "n.ipynb", seals=("tiny@twin:a",))


@pytest.mark.parametrize(("serve", "current"), [(TWIN, 1), (REAL, 2), ({}, 2)])
def test_only_what_is_not_an_observation_is_replaced(project: Project, serve: dict, current: int) -> None:
    # Another number of rows is another parameter, so the store itself lets both stand.
    old = project.seal("twin:a", [1.0], serve)
    new = project.seal("twin:a", [1.0, 2.0], serve)
    other = project.seal("twin:b", [1.0, 2.0, 3.0], serve)
    receipts = [Receipt(new, "tiny", "twin:a"), Receipt(other, "tiny", "twin:b")]
    replaced = supersede_older(STAGE, receipts, project.store, "again")
    assert replaced == ([old] if current == 1 else [])
    seals = [artifact.seal for artifact in project.store.artifacts("tiny", "twin:a")]
    assert len(seals) == current
    assert project.store.find("tiny@twin:a").seal == new
    assert supersede_older(STAGE, receipts, project.store, "again") == []
    assert not project.store.verify()


def test_what_another_serve_gave_is_not_replaced(project: Project) -> None:
    """The gates of an intervention's restarts stand beside the gate of the first serve."""
    project.seal("twin:a", [1.0], {**TWIN, "id": "serve-1"})
    new = project.seal("twin:a", [1.0, 2.0], {**TWIN, "id": "serve-2"})
    assert supersede_older(STAGE, [Receipt(new, "tiny", "twin:a")], project.store, "again") == []
    assert len(project.store.artifacts("tiny", "twin:a")) == 2
