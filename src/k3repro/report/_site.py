"""Where the parts of a site stand on disk."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from k3repro.errors import InputError

__all__ = ["Site", "Template", "study_files"]


@dataclass(frozen=True, slots=True)
class Template:
    """The text of a page template and where it stands, for messages."""

    text: str
    where: str


def study_files(folder: Path, ending: str) -> dict[str, Path]:
    """Files of a folder and of the study folders in it, by stem.

    Raises:
        InputError: two files of one name.
    """
    found: dict[str, Path] = {}
    for path in sorted([*folder.glob(f"*{ending}"), *folder.glob(f"*/*{ending}")]):
        if path.stem in found:
            raise InputError(f"{path.stem!r} names two files", where=str(path), fix="Rename one of them.")
        found[path.stem] = path
    return dict(sorted(found.items()))


@dataclass(frozen=True, slots=True)
class Site:
    """The folder `site/`: templates, queries and figures in; `.generated/` between; `build/` out.

    work: where `.generated/` and `build/` stand; default the site itself. ran: the executed notebooks.
    """

    root: Path
    work: Path | None = None
    ran: Path | None = None

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
    def studies(self) -> frozenset[str]:
        """Studies of this site: the folders of `queries/`. `pages/STUDY/a/b.md` becomes `a/b.html`."""
        folders = self.queries.iterdir() if self.queries.is_dir() else ()
        return frozenset(path.name for path in folders if path.is_dir())

    @property
    def pages(self) -> Path:
        return self.root / "pages"

    def templates(self) -> dict[str, Template]:
        """Page templates by the name of the page they make.

        Raises:
            InputError: two studies have a page of one name.
        """
        found: dict[str, Template] = {}
        for path in sorted(self.pages.rglob("*.md")):
            place = path.relative_to(self.pages)
            inside = Path(*place.parts[1:]) if place.parts[0] in self.studies else place
            template = Template(path.read_text("utf-8"), f"site/pages/{place.as_posix()}")
            if other := found.get(inside.as_posix()):
                raise InputError(
                    f"page {inside} has two templates",
                    where=template.where,
                    fix=f"Rename it, or {other.where}.",
                )
            found[inside.as_posix()] = template
        return dict(sorted(found.items()))

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
        return (self.work or self.root) / ".generated"

    @property
    def build(self) -> Path:
        return (self.work or self.root) / "build"

    @property
    def executed(self) -> Path:
        """Executed notebooks, one folder a pipeline."""
        return self.ran or self.root.parent / "notebooks" / ".executed"

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
