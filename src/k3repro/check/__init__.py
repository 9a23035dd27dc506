"""Check a serving publication without preparation: which printed numbers agree, and which no rounding
reconciles.
"""

from k3repro.check._annotate import annotated
from k3repro.check._check import Checked, check_document
from k3repro.check._document import Document
from k3repro.check._lexer import Printed
from k3repro.check._read import SUFFIXES, read_bytes, read_document, suppressions
from k3repro.check._relation import Relation
from k3repro.check._report import as_json, explain, lines
from k3repro.check._sarif import sarif

__all__ = [
    "SUFFIXES",
    "Checked",
    "Document",
    "Printed",
    "Relation",
    "annotated",
    "as_json",
    "check_document",
    "explain",
    "lines",
    "read_bytes",
    "read_document",
    "sarif",
    "suppressions",
]
