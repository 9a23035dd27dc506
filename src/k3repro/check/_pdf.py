"""PDF to a document: lines of words in reading order, and the tables that rules or columns draw."""

from __future__ import annotations

from k3repro.check._document import Document
from k3repro.errors import InputError

__all__ = ["read_pdf"]


def read_pdf(data: bytes, path: str) -> Document:
    raise InputError("PDF is not read yet", where=path)
