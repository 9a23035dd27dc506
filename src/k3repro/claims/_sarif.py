"""The audit as SARIF 2.1.0, so that a repository's CI annotates the lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from k3repro import sarif as sarif_log
from k3repro.claims._audit import Verdict
from k3repro.claims._library import Audit
from k3repro.claims._render import show_interval, span_of
from k3repro.claims._rules import RULES
from k3repro.claims._source import read_source

__all__ = ["sarif"]


def sarif(audits: Iterable[Audit], *, source: Path | None = None) -> dict[str, Any]:
    """One run with a result for every flagged claim; places are lines of `source`, else of the ledger."""
    rules = [sarif_log.rule(code, text, level) for code, (level, text) in sorted(RULES.items())]
    results = [result for audit in audits for result in _results(audit, source)]
    return sarif_log.document("k3repro", rules, results)


def _results(audit: Audit, source: Path | None) -> Iterator[dict[str, Any]]:
    lines = _source_lines(source) if source else _ledger_lines(audit)
    uri = (source or Path(audit.ledger.path)).as_posix()
    for code, what in (*audit.coverage.problems, *(("K3C505", what) for what in audit.source_problems)):
        yield _result(code, what, uri, lines.get(what.partition(" ")[0], 1))
    for verdict in audit.verdicts:
        if verdict.code and RULES[verdict.code][0] != "note":
            key = verdict.claim.place if source else verdict.claim.id
            yield _result(
                verdict.code, _message(verdict), uri, lines.get(key, lines.get(verdict.claim.place, 1))
            )


def _message(verdict: Verdict) -> str:
    claim, step = verdict.claim, verdict.decisive
    derived = f" The other numbers give {show_interval(span_of(step.derived, claim))}." if step else ""
    change = f" Smallest change: {verdict.change}." if verdict.change else ""
    note = f" {'; '.join(verdict.notes)}." if verdict.notes else ""
    return f"{claim.id} is printed as {claim.printed} {claim.unit}.{derived}{change}{note}".replace(" .", ".")


def _result(code: str, message: str, uri: str, line: int) -> dict[str, Any]:
    return sarif_log.result(code, RULES[code][0], message, sarif_log.physical(uri, line))


def _source_lines(source: Path) -> dict[str, int]:
    read = read_source(source)
    found, line, at = {}, 1, 0
    for item in read.located:
        line += read.text.count("\n", at, item.numeral.start)
        at = item.numeral.start
        found[item.place] = line
    return found


def _ledger_lines(audit: Audit) -> dict[str, int]:
    """The line of the ledger on which a claim's id (or its table row's) is written."""
    found: dict[str, int] = {}
    table = ""
    for number, text in enumerate(Path(audit.ledger.path).read_text(encoding="utf-8").splitlines(), start=1):
        match = re.search(r'\bid = "([\w.]+)"', text)
        if match is None:
            continue
        name = match.group(1)
        table = name if text.startswith("id =") else table
        found.setdefault(name, number)
        if "cells =" in text:
            for claim in audit.ledger.claims:
                if claim.startswith(f"{table}.{name}."):
                    found.setdefault(claim, number)
    return found
