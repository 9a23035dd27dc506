"""Spec files as documents: what a sealed copy of a spec is read from and back into."""

from k3repro.spec._document import Document, load_document, parse_document
from k3repro.spec._layout import layout_of
from k3repro.spec._model import model_of
from k3repro.spec._platform import platform_of

__all__ = ["Document", "layout_of", "load_document", "model_of", "parse_document", "platform_of"]
