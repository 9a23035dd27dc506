"""Where the parts of a site stand on disk."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from k3repro.errors import InputError

__all__ = ["Site"]


@dataclass(frozen=True, slots=True)
class Site:
    """The folder `site/`: templates, queries and figures in; `.generated/` between; `build/` out."""

    root: Path

    @classmethod
    def find(cls, start: Path | None = None) -> Site:
        """`$K3REPRO_SITE`, or the nearest `site/mkdocs.yml` upward of `start`.

        Raises:
            InputError: there is none.
        """
        if named := os.environ.get("K3REPRO_SITE"):
            return cls(Path(named).resolve())
        here = (start or Path.cwd()).resolve()
        for folder in (here, *here.parents):
            for candidate in (folder, folder / "site"):
                if (candidate / "mkdocs.yml").is_file() and (candidate / "pages").is_dir():
                    return cls(candidate)
        raise InputError(
            "no site here", where=str(here), fix="Run inside the repository, or set K3REPRO_SITE."
        )

    @property
    def pages(self) -> Path:
        return self.root / "pages"

    @property
    def queries(self) -> Path:
        return self.root / "queries"

    @property
    def figures(self) -> Path:
        return self.root / "figures"

    @property
    def assets(self) -> Path:
        return self.root / "assets"

    @property
    def generated(self) -> Path:
        return self.root / ".generated"

    @property
    def build(self) -> Path:
        return self.root / "build"

    @property
    def executed(self) -> Path:
        """Executed notebooks, one folder a pipeline."""
        return self.root.parent / "notebooks" / ".executed"

    def notebooks(self) -> dict[str, Path]:
        """Executed notebooks by stage; a stage of several pipelines shows in the one with most of them.

        What a failed run left (`STAGE.failed.ipynb`) is no page.
        """
        folders = [folder for folder in self.executed.glob("*") if folder.is_dir()]
        groups = [
            [path for path in sorted(folder.glob("*.ipynb")) if not path.name.endswith(".failed.ipynb")]
            for folder in sorted(folders)
        ]
        found: dict[str, Path] = {}
        for group in sorted(groups, key=len, reverse=True):
            for path in group:
                found.setdefault(path.stem, path)
        return dict(sorted(found.items()))
