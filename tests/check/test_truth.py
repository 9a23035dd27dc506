"""Eight public posts read by hand: every relation that a reader finds, and which of them the check
recognises.

truth/*.json holds facts only: line, printed numbers, whether the relation is true. The posts themselves are
not here: $K3REPRO_CORPUS names the folder that holds them; without it only the truth is checked.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from k3repro.check import check_document, read_document

TRUTH = sorted((Path(__file__).parent / "truth").glob("*.json"))
KEYS = {"kind", "line", "claim", "inputs", "true", "recognised"}


def rows(path: Path) -> list[dict[str, Any]]:
    return list(json.loads(path.read_text(encoding="utf-8"))["relations"])


def test_the_truth_is_well_formed_and_has_forty_recognised() -> None:
    every = [row for path in TRUTH for row in rows(path)]
    assert len(TRUTH) == 8 and all(set(row) == KEYS for row in every)
    assert sum(row["recognised"] for row in every) >= 40
    assert [row["claim"] for row in every if not row["true"]] == ["2.4x", "2.5x"]


@pytest.mark.parametrize("path", TRUTH, ids=lambda path: str(path.stem))
def test_what_was_recognised_still_is_and_nothing_true_is_flagged(path: Path) -> None:
    folder = os.environ.get("K3REPRO_CORPUS")
    if not folder:
        pytest.skip("$K3REPRO_CORPUS names no folder with the posts")
    truth = json.loads(path.read_text(encoding="utf-8"))
    post = Path(folder) / truth["post"]
    assert hashlib.sha256(post.read_bytes()).hexdigest() == truth["sha256"]
    found = check_document(read_document(post)).relations
    seen = {(r.detector, r.claim.block.line, r.claim.text, r.verdict == "holds") for r in found}
    wanted = {(r["kind"], r["line"], r["claim"], r["true"]) for r in truth["relations"] if r["recognised"]}
    assert wanted <= seen
    assert [r.claim.text for r in found if r.verdict == "differs"] == [
        row["claim"] for row in truth["relations"] if not row["true"]
    ]
