"""Files a stage reads beside its artifacts: patterns from the project folder, and their digests."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Mapping
from pathlib import Path

from k3repro.errors import PipelineError
from k3repro.pipeline._spec import Pipeline, Stage

__all__ = ["changed_files", "file_digests"]


def file_digests(pipeline: Pipeline, stage: Stage) -> dict[str, str]:
    """SHA-256 of every file that the stage's patterns match, by its path from the project folder.

    Raises:
        PipelineError: a pattern matches nothing (a misspelt one would keep the stage fresh for good), or a
            file cannot be read.
    """
    where = f"{pipeline.path}: stage {stage.name!r}: files"
    found: dict[str, str] = {}
    for pattern in stage.files:
        try:
            paths = [path for path in sorted(pipeline.root.glob(pattern)) if path.is_file()]
        except ValueError as error:
            raise PipelineError(f"{pattern!r} is no pattern: {error}", where=where) from None
        if not paths:
            raise PipelineError(
                f"no file matches {pattern!r}", where=where, fix=_near(pipeline.root, pattern)
            )
        for path in paths:
            found[path.relative_to(pipeline.root).as_posix()] = _digest(path, where)
    return dict(sorted(found.items()))


def changed_files(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Paths that were edited, came or went between two looks."""
    return [name for name in sorted({*before, *after}) if before.get(name) != after.get(name)]


def _digest(path: Path, where: str) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise PipelineError(f"{path.name} cannot be read: {error.strerror}", where=where) from None


def _near(root: Path, pattern: str) -> str:
    """The nearest names in the deepest folder of the pattern that exists."""
    folder, rest = root, pattern.split("/")
    while len(rest) > 1 and (folder / rest[0]).is_dir():
        folder, rest = folder / rest[0], rest[1:]
    names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    near = difflib.get_close_matches(rest[0], names, n=3, cutoff=0.5)
    if near:
        return f"Did you mean {' or '.join(near)}?"
    return f"Looked in {folder.relative_to(root).as_posix()}/ of the project."
