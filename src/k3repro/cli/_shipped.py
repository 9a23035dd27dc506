"""Notebooks, pipelines, queries and figures of the project: in the checkout, else where pip put them."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from k3repro.errors import MachineError

__all__ = ["copy_project", "shipped"]

PARTS = ("notebooks", "pipelines", "site")


def shipped(start: Path | None = None) -> tuple[Path, bool]:
    """(the folder that holds notebooks/, whether it is an installed copy that has to stay as it is).

    The nearest upward of `start` wins, so that a clone is used where it is one.

    Raises:
        MachineError: the package was installed without them.
    """
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        if (folder / "notebooks").is_dir():
            return folder, False
    for base in (Path(sys.prefix), Path.home() / ".local"):
        if (base / "share" / "k3repro" / "notebooks").is_dir():
            return base / "share" / "k3repro", True
    fix = "Install it again: pip install --force-reinstall k3repro."
    raise MachineError("this installation has no notebooks", where="share/k3repro", fix=fix)


def copy_project(source: Path, target: Path) -> Path:
    """Notebooks and what they show with, copied to a folder of the user's; files that are there stay."""
    for part in PARTS:
        for path in sorted((source / part).rglob("*")):
            place = target / path.relative_to(source)
            if path.is_file() and not place.exists():
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, place)
    (target / "artifacts").mkdir(exist_ok=True)
    return target
