"""SARIF against the official schema of OASIS (data/sarif-schema-2.1.0.json, copied unchanged from
oasis-tcs/sarif-spec).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from k3repro.check import Checked, check_document, read_bytes, sarif

jsonschema = pytest.importorskip("jsonschema")
SCHEMA = json.loads((Path(__file__).parent / "data" / "sarif-schema-2.1.0.json").read_text(encoding="utf-8"))
BAD = "TPOT fell from 40 ms to 22 ms, a 55% reduction. That makes 4 × 8 = 36 GPUs.\n"


def checked(text: str, suffix: str = ".md") -> Checked:
    return check_document(read_bytes(text.encode(), f"posts/a b{suffix}", suffix))


def validate(log: dict[str, Any]) -> None:
    jsonschema.Draft7Validator(SCHEMA).validate(log)


def test_findings_suppressions_and_empty_runs_are_valid() -> None:
    name = checked(BAD).findings[0].id
    suppressed = checked(f"{BAD}\n<!-- k3check: ignore {name} quoted from a paper -->\n")
    validate(sarif([checked(BAD), checked(BAD, ".html"), suppressed]))
    validate(sarif([]))
    validate(sarif([checked("nothing")]))
    results = sarif([suppressed])["runs"][0]["results"]
    assert [bool(r.get("suppressions")) for r in results] == [True, False]


def test_the_schema_refuses_what_is_no_sarif() -> None:
    log = sarif([checked(BAD)])
    log["runs"][0]["results"][0]["level"] = "fatal"
    with pytest.raises(jsonschema.ValidationError):
        validate(log)
