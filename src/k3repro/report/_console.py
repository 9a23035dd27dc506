"""The SQL console: a page over the site's artifacts that `site build --sql` adds.

What the page's script needs (files, views, the rows of `artifacts`) is made again by the verifier and
compared.
"""

from __future__ import annotations

import json
from typing import Any

from k3repro.report._markup import attributes, escape, script_json
from k3repro.report._sources import Sources

__all__ = ["CONSOLE", "console_html", "console_page"]

CONSOLE = "sql.md"
_EXAMPLE = "SELECT name, subject, tier, kind FROM artifacts ORDER BY name, subject"
_PAGE = """---
title: Ask the artifacts
description: A console that runs SQL in the page, over the artifacts that ship with this site.
---

# Ask the artifacts

Every artifact of this site, queried in the page by DuckDB compiled to WebAssembly. The engine is large and is
loaded only when asked for; nothing leaves this machine. Tables have the names that
`k3repro artifacts sql "SHOW TABLES"` lists.

{console}

The engine runs in a worker of its own and brings no functions for JSON and none for time zones: queries that
need those run in a terminal, over the same files. What is shown here is the answer to a reader's own
question, bound to nothing.
"""


def console_page(sources: Sources) -> str:
    """The Markdown of the page."""
    return _PAGE.replace("{console}", f"\n\n{console_html(sources)}\n\n")


def console_html(sources: Sources) -> str:
    """`<div class="k3-console">`: controls, an empty answer, and what the script needs to know."""
    area = {"name": "sql", "rows": "5", "spellcheck": "false", "aria-label": "SQL, one SELECT"}
    data = script_json(_data(sources))
    return (
        '<div class="k3-console"><p class="k3-console-said" role="status">'
        "The console needs scripts and a server: run k3repro site serve.</p>"
        f"<textarea{attributes(dict(area))}>{escape(_EXAMPLE)}</textarea>"
        '<p class="k3-console-bar"><button type="button" name="run">Load the engine and run</button>'
        '<button type="button" name="link">Copy link</button></p>'
        '<pre class="k3-console-line" aria-label="The same in a terminal"></pre>'
        '<output data-live="rows"></output>'
        f'<script type="application/json" class="k3-console-data">{data}</script></div>'
    )


def _data(sources: Sources) -> dict[str, Any]:
    rows = [row for _, row in sorted(sources.artifacts.items()) if sources.files.get(row["seal"], ("", 0))[0]]
    views: dict[str, list[str]] = {}
    for row in rows:
        for table in sorted(json.loads(row["rows"])):
            views.setdefault(f"{row['name'].replace('-', '_')}_{table}", []).append(row["seal"])
    files = {row["seal"]: sources.files[row["seal"]][0] for row in rows}
    return {
        "artifacts": [{name: value for name, value in row.items() if name != "schema"} for row in rows],
        "files": files,
        "views": dict(sorted(views.items())),
    }
