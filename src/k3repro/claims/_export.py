"""A report with its artifacts for other tools: an RO-Crate 1.1 and an in-toto statement over its files.

Both are a function of the folder's bytes and the date given: the same report gives the same export.
"""

from __future__ import annotations

import hashlib
import json
import mimetypes
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from k3repro import __version__
from k3repro.claims._audit import VERDICTS, headline
from k3repro.claims._library import Audit
from k3repro.claims._render import audit_json, counts
from k3repro.errors import InputError

__all__ = ["AUDIT_FILE", "CRATE_FILE", "STATEMENT_FILE", "export_report"]

CRATE_FILE = "ro-crate-metadata.json"
STATEMENT_FILE = "statement.intoto.json"
AUDIT_FILE = "claims-audit.json"
_CONTEXT = "https://w3id.org/ro/crate/1.1/context"
_PROFILE = "https://w3id.org/ro/crate/1.1"
_STATEMENT = "https://in-toto.io/Statement/v1"
_PREDICATE = "https://in-toto.io/attestation/test-result/v0.1"
_SOFTWARE = "#k3repro"
_LICENSES = {name: f"https://spdx.org/licenses/{name}" for name in ("MIT", "CC-BY-4.0", "CC0-1.0")}
_FORMATS = {".duckdb": "application/vnd.duckdb.file", ".toml": "application/toml", ".sql": "application/sql"}


@dataclass(frozen=True, slots=True)
class _File:
    name: str
    size: int
    sha256: str
    form: str


def export_report(
    folder: Path, to: Path, audits: Iterable[Audit], *, name: str, date: str, license_id: str = "CC-BY-4.0"
) -> list[Path]:
    """Copy a built report to `to` and describe it there; the audit of claims lies beside it as JSON.

    `date` is YYYY-MM-DD. The statement's subjects are all files but itself and the crate's metadata.

    Raises:
        InputError: no such folder, a target that exists, an unknown licence.
    """
    if not folder.is_dir():
        raise InputError("is no folder", where=str(folder), fix="Build the report first: k3repro site build.")
    if to.exists():
        raise InputError(
            "exists already", where=str(to), fix="Choose a new folder; an export never overwrites."
        )
    if license_id not in _LICENSES:
        raise InputError(f"{license_id!r} is no known licence", fix=f"Known: {', '.join(_LICENSES)}.")
    found = list(audits)
    shutil.copytree(folder, to, ignore=shutil.ignore_patterns(CRATE_FILE, STATEMENT_FILE, AUDIT_FILE))
    _write(to / AUDIT_FILE, audit_json(found))
    files = [_describe(path, to) for path in sorted(to.rglob("*")) if path.is_file()]
    _write(to / STATEMENT_FILE, _statement(files, found))
    described = [*files, _describe(to / STATEMENT_FILE, to)]
    _write(to / CRATE_FILE, _crate(described, found, name=name, date=date, license_id=license_id))
    return [to / CRATE_FILE, to / STATEMENT_FILE, to / AUDIT_FILE]


def _write(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2, sort_keys=True, allow_nan=False) + "\n", encoding="utf-8")


def _describe(path: Path, root: Path) -> _File:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    form = _FORMATS.get(path.suffix) or mimetypes.types_map.get(path.suffix) or "application/octet-stream"
    return _File(path.relative_to(root).as_posix(), path.stat().st_size, digest.hexdigest(), form)


def _statement(files: list[_File], audits: list[Audit]) -> dict[str, Any]:
    """An in-toto test result: the audit is the test, each claim a case."""
    cases: dict[str, list[str]] = {verdict: [] for verdict in VERDICTS}
    for audit in audits:
        for verdict in audit.verdicts:
            cases[verdict.verdict].append(f"{audit.ledger.id}:{verdict.claim.id}")
    passed = all(audit.ok for audit in audits)
    return {
        "_type": _STATEMENT,
        "subject": [{"name": file.name, "digest": {"sha256": file.sha256}} for file in files],
        "predicateType": _PREDICATE,
        "predicate": {
            "result": "PASSED" if passed else "FAILED",
            "configuration": [
                {"name": audit.ledger.id, "digest": {"sha256": audit.ledger.sha256}}
                for audit in audits
                if audit.ledger.sha256
            ],
            "passedTests": cases["supported"],
            "warnedTests": cases["undecidable"] + cases["unbacked"],
            "failedTests": cases["contradicted"],
        },
    }


def _crate(
    files: list[_File], audits: list[Audit], *, name: str, date: str, license_id: str
) -> dict[str, Any]:
    parts = [{"@id": file.name} for file in files]
    action = {
        "@id": "#audit",
        "@type": "CreateAction",
        "name": "Audit of claims",
        "description": "; ".join(_summary(audit) for audit in audits) or "No ledger of claims was audited.",
        "instrument": {"@id": _SOFTWARE},
        "result": {"@id": AUDIT_FILE},
    }
    root = {
        "@id": "./",
        "@type": "Dataset",
        "name": name,
        "description": "A report in which every number comes from a sealed artifact, with those artifacts.",
        "datePublished": date,
        "license": {"@id": _LICENSES[license_id]},
        "hasPart": parts,
        "mentions": {"@id": "#audit"},
    }
    descriptor = {
        "@id": CRATE_FILE,
        "@type": "CreativeWork",
        "about": {"@id": "./"},
        "conformsTo": {"@id": _PROFILE},
    }
    licence = {
        "@id": _LICENSES[license_id],
        "@type": "CreativeWork",
        "name": license_id,
        "description": license_id,
    }
    software = {"@id": _SOFTWARE, "@type": "SoftwareApplication", "name": "k3repro", "version": __version__}
    entities = [descriptor, root, licence, software, action, *(_entity(file) for file in files)]
    return {
        "@context": [_CONTEXT, {"sha256": "https://w3id.org/ro/terms/workflow-run#sha256"}],
        "@graph": entities,
    }


def _entity(file: _File) -> dict[str, Any]:
    return {
        "@id": file.name,
        "@type": "File",
        "name": file.name,
        "contentSize": str(file.size),
        "encodingFormat": file.form,
        "sha256": file.sha256,
    }


def _summary(audit: Audit) -> str:
    tally = ", ".join(f"{n} {verdict}" for verdict, n in counts(audit.verdicts).items())
    strong = len(headline(list(audit.verdicts)))
    return f"{audit.ledger.id}: {tally}; {strong} contradictions survive twice the tolerance"
