"""Runs, artifacts, ledger, catalog: what every number of the project comes from (docs/artifact-format.md)."""

from k3repro.store._artifact import Artifact
from k3repro.store._catalog import Catalog
from k3repro.store._code import code_closure, code_hash, read_code
from k3repro.store._derive import Rows, derivation
from k3repro.store._environment import commit_of
from k3repro.store._export import csv_text, export_artifact
from k3repro.store._findings import Finding
from k3repro.store._ledger import Entry, Ledger
from k3repro.store._moved import current_producer
from k3repro.store._reads import cell_key, reads_of
from k3repro.store._redact import Redactor, looks_secret
from k3repro.store._rows import Col, Row, as_rows
from k3repro.store._run import Run
from k3repro.store._schema import Column, Header, Schema, Table
from k3repro.store._signing import SIGNERS, Signed, read_signed, sign_heads
from k3repro.store._state import Withdrawal
from k3repro.store._store import Store
from k3repro.store._tier import OBSERVED, REAL_EVIDENCE, TWIN_MARK, WEAKEST_FIRST, tier_of, weakest
from k3repro.store._untrusted import (
    UntrustedArtifact,
    UntrustedCatalog,
    open_untrusted,
    open_untrusted_catalog,
    recount_untrusted,
)

__all__ = [
    "OBSERVED",
    "REAL_EVIDENCE",
    "SIGNERS",
    "TWIN_MARK",
    "WEAKEST_FIRST",
    "Artifact",
    "Catalog",
    "Col",
    "Column",
    "Entry",
    "Finding",
    "Header",
    "Ledger",
    "Redactor",
    "Row",
    "Rows",
    "Run",
    "Schema",
    "Signed",
    "Store",
    "Table",
    "UntrustedArtifact",
    "UntrustedCatalog",
    "Withdrawal",
    "as_rows",
    "cell_key",
    "code_closure",
    "code_hash",
    "commit_of",
    "csv_text",
    "current_producer",
    "derivation",
    "export_artifact",
    "looks_secret",
    "open_untrusted",
    "open_untrusted_catalog",
    "read_code",
    "read_signed",
    "reads_of",
    "recount_untrusted",
    "sign_heads",
    "tier_of",
    "weakest",
]
