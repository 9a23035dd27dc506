"""SARIF 2.1.0, the form in which a repository's CI annotates lines: one run, rules, results with a place."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from k3repro import __version__

__all__ = ["document", "physical", "result", "rule"]

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def document(tool: str, rules: Iterable[dict[str, Any]], results: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The log of one run of `tool`: its rules (SARIF reportingDescriptor objects) and their results."""
    driver = {"name": tool, "version": __version__, "rules": list(rules)}
    return {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": list(results)}],
    }


def rule(name: str, short: str, level: str, full: str = "") -> dict[str, Any]:
    """A rule: one line, its level ("note", "warning" or "error") and, if there is one, the long form."""
    described = {"fullDescription": {"text": full}} if full else {}
    return {
        "id": name,
        "shortDescription": {"text": short},
        **described,
        "defaultConfiguration": {"level": level},
    }


def result(rule_id: str, level: str, message: str, location: dict[str, Any]) -> dict[str, Any]:
    """A finding of a rule at one location."""
    return {"ruleId": rule_id, "level": level, "message": {"text": message}, "locations": [location]}


def physical(uri: str, line: int | None) -> dict[str, Any]:
    """A file and, where the file has lines, the one that is meant (from 1)."""
    region = {} if line is None else {"region": {"startLine": line}}
    return {"physicalLocation": {"artifactLocation": {"uri": uri}, **region}}
