"""`mkdocs build` of some pages: the others are read, since menus name them, and neither rendered nor written.

python -m k3repro.report._mkdocs_some FOLDER < PAGES      (JSON list of Markdown files)
"""

from __future__ import annotations

import json
import sys
from typing import Any

from mkdocs.__main__ import cli
from mkdocs.commands import build

__all__ = ["main"]


def main() -> None:
    """Build the `mkdocs.yml` of the working directory into a folder."""
    wanted = set(json.load(sys.stdin))
    populate, write = build._populate_page, build._build_page

    def populated(page: Any, config: Any, *rest: Any) -> None:
        page.read_source(config)
        if page.file.src_uri in wanted or "title" not in page.meta or config.plugins:
            populate(page, config, *rest)

    def written(page: Any, *rest: Any, **named: Any) -> None:
        if page.file.src_uri in wanted:
            write(page, *rest, **named)

    build._populate_page, build._build_page = populated, written
    cli(["build", "--quiet", "--strict", "-f", "mkdocs.yml", "-d", sys.argv[1]])


if __name__ == "__main__":
    main()
