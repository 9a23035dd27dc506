"""The theme's icons: the only drawings that a page may show without an artifact."""

from __future__ import annotations

import re
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

__all__ = ["is_icon"]

# Icons that site/mkdocs.yml asks for, beside those that the theme's templates name.
_OF_THE_SITE = ("material/weather-night", "material/weather-sunny")
_NAMED = re.compile(r"[\"'/]((?:material|fontawesome|octicons|simple)/[a-z0-9/-]+)")
_SHAPE = re.compile(r"<path d=\"([^\"]*)\"")


def is_icon(svg: Any) -> bool:
    """Whether a drawing is a single path that the installed theme draws too."""
    children = list(svg)
    if len(children) != 1 or children[0].tag != "path" or len(children[0]):
        return False
    attributes = set(map(str.lower, svg.attrib)) - {"xmlns", "viewbox", "class", "aria-hidden"}
    return not attributes and set(children[0].attrib) == {"d"} and children[0].get("d") in _shapes()


@lru_cache(maxsize=1)
def _shapes() -> frozenset[str]:
    folder = Path(str(resources.files("material").joinpath("templates")))
    names = set(_OF_THE_SITE)
    for path in sorted(folder.rglob("*.html")):
        names.update(_NAMED.findall(path.read_text("utf-8")))
    files = [folder / ".icons" / f"{name}.svg" for name in sorted(names)]
    return frozenset(
        shape for file in files if file.is_file() for shape in _SHAPE.findall(file.read_text("utf-8"))
    )
