"""Notebook sources: what is executed, read from the bytes without importing any notebook library."""

from __future__ import annotations

import ast
import difflib
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from k3repro.errors import PipelineError


@dataclass(frozen=True)
class Source:
    """A notebook as read once: its bytes, cells and kernel name; everything later is bound to these bytes."""

    path: Path
    raw: bytes
    cells: tuple[Mapping[str, Any], ...]
    kernel: str

    @property
    def digest(self) -> str:
        """SHA-256 over kernel, cell types, sources and tags; outputs, counts and metadata do not count."""
        parts = [(cell["cell_type"], cell_text(cell), cell_tags(cell)) for cell in self.cells]
        return hashlib.sha256(json.dumps([self.kernel, parts]).encode()).hexdigest()

    @property
    def parameters(self) -> tuple[str, ...] | None:
        """Names assigned in the cell tagged `parameters`; None when there is no such cell."""
        for cell in self.cells:
            if cell["cell_type"] == "code" and "parameters" in cell_tags(cell):
                return _assigned(cell_text(cell))
        return None


def read_source(path: Path, *, where: str) -> Source:
    """Read a notebook; PipelineError when it is missing, not a version 4 notebook, or names no kernel."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        raise PipelineError(f"no notebook {path.name}", where=where, fix=_near(path)) from None
    except OSError as error:
        raise PipelineError(f"{path.name} cannot be read: {error.strerror}", where=where) from None
    return parse_source(path, raw, where=where)


def parse_source(path: Path, raw: bytes, *, where: str) -> Source:
    """The same from bytes already read."""
    try:
        document = json.loads(raw)
        cells = tuple(document["cells"])
        if document["nbformat"] != 4 or not all(isinstance(cell_text(cell), str) for cell in cells):
            raise ValueError
        kernel = document.get("metadata", {}).get("kernelspec", {}).get("name", "")
    except (ValueError, KeyError, TypeError, AttributeError):
        raise PipelineError(
            f"{path.name} is not a notebook of format 4", where=where, fix="Open and save it in JupyterLab."
        ) from None
    if not kernel:
        raise PipelineError(
            f"{path.name} names no kernel",
            where=where,
            fix="Choose a kernel in JupyterLab and save (metadata.kernelspec.name, usually python3).",
        )
    return Source(path, raw, cells, str(kernel))


def check_parameters(source: Source, given: Mapping[str, Any], *, where: str) -> None:
    """Refuse parameters that the notebook does not have: papermill would only warn (papermill issue 245)."""
    known = source.parameters
    if not given:
        return
    if known is None:
        raise PipelineError(
            f"{source.path.name} has no cell tagged 'parameters' but the stage gives {', '.join(given)}",
            where=where,
            fix="Tag the cell that sets the defaults.",
        )
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
            fix = f"Did you mean {' or '.join(near)}?" if near else f"It has: {', '.join(known) or 'none'}."
            raise PipelineError(f"{source.path.name} has no parameter {name!r}", where=where, fix=fix)


def cell_text(cell: Mapping[str, Any]) -> str:
    """The source of a cell as one string (the format allows a list of lines)."""
    text = cell["source"]
    return text if isinstance(text, str) else "".join(text)


def cell_tags(cell: Mapping[str, Any]) -> list[str]:
    """The tags of a cell, sorted."""
    return sorted(cell.get("metadata", {}).get("tags", []))


def _assigned(text: str) -> tuple[str, ...]:
    try:
        body = ast.parse(text).body
    except SyntaxError:
        return ()
    names: list[str] = []
    for node in body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        targets = [node.target] if isinstance(node, ast.AnnAssign) else targets
        names += [target.id for target in targets if isinstance(target, ast.Name)]
    return tuple(names)


def _near(path: Path) -> str:
    names = [item.name for item in path.parent.glob("*.ipynb")] if path.parent.is_dir() else []
    near = difflib.get_close_matches(path.name, names, n=3, cutoff=0.4)
    return f"Did you mean {' or '.join(near)}?" if near else f"Looked in {path.parent}."
