"""Findings as SARIF 2.1.0, so that a repository's CI annotates the lines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from k3repro import sarif as sarif_log
from k3repro.check._check import Checked
from k3repro.check._document import Document
from k3repro.check._lexer import Printed
from k3repro.check._relation import Relation
from k3repro.check._report import fix_of, interval, place_of
from k3repro.check.detect import PRECONDITIONS

__all__ = ["sarif"]

_SHORT = "a printed number and the numbers it follows from differ"


def sarif(checks: Sequence[Checked]) -> dict[str, Any]:
    """One run: a rule per detector, a result per finding, suppressed ones with their reason."""
    rules = [
        sarif_log.rule(
            name, f"{name}: a printed number and the numbers it follows from differ", "error", text
        )
        for name, text in sorted(PRECONDITIONS.items())
    ]
    results = [_result(r, checked) for checked in checks for r in checked.relations if r.verdict == "differs"]
    return sarif_log.document("k3repro audit check", rules, results)


def _result(relation: Relation, checked: Checked) -> dict[str, Any]:
    document, claim = checked.document, relation.claim
    text = (
        f"{relation.says}. {relation.reckoning.formula} = {interval(relation.reckoning.derived, claim)}; "
        f"printed {claim.text} stands for {interval(relation.claimed, claim)}."
    )
    text += f" Perhaps: {relation.slip}." if relation.slip else ""
    text += f" Would hold: {fix_of(relation)}." if fix_of(relation) else ""
    result = sarif_log.result(relation.detector, "error", text, _location(claim, document))
    result["partialFingerprints"] = {"k3check/v1": relation.id}
    if relation.inputs:
        result["relatedLocations"] = [
            {"id": i, "message": {"text": number.text}, **_location(number, document)}
            for i, number in enumerate(relation.inputs)
        ]
    if reason := checked.reason(relation):
        result["suppressions"] = [{"kind": "inSource", "justification": reason}]
    return result


def _location(number: Printed, document: Document) -> dict[str, Any]:
    line = max(1, number.block.line) if document.unit_of_place == "line" else None
    return {
        **sarif_log.physical(Path(document.path).as_posix(), line),
        "logicalLocations": [{"fullyQualifiedName": place_of(number, document)}],
    }
