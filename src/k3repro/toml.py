"""TOML read in one place: whatever is wrong with a file is one error that says where."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

from k3repro.errors import InputError, UsageError

__all__ = ["parse_toml", "read_toml", "shipped_toml"]


def parse_toml(text: str, where: str, *, error: type[UsageError] = InputError) -> dict[str, Any]:
    """The document.

    Raises:
        error: not TOML, or nested deeper than the parser goes.
    """
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as found:
        raise error(f"not valid TOML: {found}", where=where) from None


def read_toml(path: Path, *, where: str = "", error: type[UsageError] = InputError) -> dict[str, Any]:
    """The document in a file, which errors call `where` (its name).

    Raises:
        error: unreadable, not UTF-8, or not TOML.
    """
    where = where or path.name
    try:
        return parse_toml(path.read_text(encoding="utf-8"), where, error=error)
    except UnicodeDecodeError as found:
        raise error(f"not UTF-8 at byte {found.start}", where=where) from None
    except OSError as found:
        raise error(f"cannot be read: {found.strerror}", where=where) from None


def shipped_toml(package: str, name: str) -> dict[str, Any]:
    """The document that a package ships beside its modules."""
    return tomllib.loads(files(package).joinpath(name).read_text(encoding="utf-8"))
