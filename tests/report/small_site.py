# ruff: noqa: E501
"""A small store with every tier a page meets, and a site over it."""

from __future__ import annotations

import shutil
from pathlib import Path

from k3repro.report import Site
from k3repro.store import Column, Header, Schema, Store, Table

REPOSITORY = Path(__file__).parents[2]

SWEEP = Schema((Table("waves", (
    Column("osl", "INT64", "tokens"), Column("wall_s", "DOUBLE", "s"), Column("p99_s", "DOUBLE", "s"),
    Column("n", "INT64"), Column("answer", "VARCHAR"),
), key=("osl",)),))  # fmt: skip
MARKUP = '<script>alert(1)</script> **bold** {{ 7 * 7 }} | `tick` &amp; "quote"'

QUERIES = {
    "sweep": """-- title: Wall time by reply length
-- column osl: {label = "Reply length", unit = "tokens"}
-- column wall_s: {label = "Wall time", unit = "s", format = ".2f"}
-- column p99_s: {label = "Slowest requests, p99", unit = "s", format = ".2f", n = "n"}
-- column n: {hide = true}
-- column answer: {label = "answer"}
SELECT seal, osl, wall_s, p99_s, n, answer FROM sweep_waves WHERE tier = 'simulated' ORDER BY osl
""",
    "pair": """-- title: Published beside simulated
-- column osl: {label = "Reply length", unit = "tokens"}
-- column published_s: {label = "Published", unit = "s", format = ".2f", seal = "seal_published"}
-- column simulated_s: {label = "Simulated", unit = "s", format = ".2f", seal = "seal_simulated"}
-- column difference_s: {label = "Difference", unit = "s", format = ".2f", difference = true}
SELECT p.seal AS seal_published, s.seal AS seal_simulated, [p.seal, s.seal] AS seal, osl,
  p.wall_s AS published_s, s.wall_s AS simulated_s, 'held-out' AS relation, s.wall_s - p.wall_s AS difference_s
FROM printed_waves p JOIN sweep_waves s USING (osl) WHERE s.tier = 'simulated' ORDER BY osl
""",
    "steps": """-- title: Steps of a wave
-- column wall_s: {label = "ends after", unit = "s", format = ".2f"}
-- column osl: {hide = true}
SELECT seal, CASE WHEN osl < 100 THEN 'Prefill' ELSE 'Decode' END AS act,
  CASE WHEN osl < 100 THEN 'prefill pool' WHEN osl < 2000 THEN 'decode pool' ELSE 'client' END AS stage,
  CASE WHEN osl < 100 THEN 'The prompt is read.' ELSE 'Tokens are written.' END AS caption, wall_s, osl
FROM sweep_waves WHERE tier = 'simulated' ORDER BY osl
""",
    "long": """-- title: Every wave beside every other
-- column badge: {kind = "badge"}
SELECT a.seal, a.osl AS osl, b.osl AS other_osl, CASE WHEN a.osl < b.osl THEN 'shorter' ELSE 'longer' END AS badge,
  a.wall_s AS wall_s, b.wall_s AS other_wall_s, a.n AS waves, b.n AS other_waves, a.wall_s + b.wall_s AS both_s
FROM sweep_waves a, sweep_waves b WHERE a.tier = 'simulated' AND b.tier = 'simulated' ORDER BY a.osl, b.osl
""",
    "nothing": """-- title: Nothing yet
-- empty: no cluster has run this probe
SELECT seal, osl FROM sweep_waves WHERE osl < 0 ORDER BY osl
""",
}
FIGURE = """
import altair as alt

def figure(rows):
    return alt.Chart(alt.Data(values=rows)).mark_line(point=True).encode(
        x=alt.X("osl:Q", title="Reply length (tokens)", scale=alt.Scale(type="log", base=2)),
        y=alt.Y("wall_s:Q", title="Wall time (s)"),
    )
"""
BARS = """
import altair as alt

def figure(rows):
    return alt.Chart(alt.Data(values=rows)).mark_bar().encode(
        x=alt.X("wall_s:Q", title="Wall time (s)"), y=alt.Y("osl:O", title="Reply length (tokens)"), color="act:N",
    )
"""
INDEX = """---
title: A small report
description: Pages that tests look at.
---

# A small report

Numbers are on [the page of the wall law](wall-law.md), steps on [the journey](journey.md).
"""
JOURNEY = """---
title: A journey
description: Steps and switches.
---

# A journey

{{ journey("bars", "steps", caption="A wave, step by step.", description="Bars that grow.") }}

{{ figure("wall", "steps", caption="The same waves.", description="A line that rises.", switches=["filter:act", "facet:act", "log:x", "log:y"]) }}
"""
LONG = """---
title: Long and wide
description: More rows than a screen, more columns than fit.
---

# Long and wide

{{ table("long", caption="Every wave beside every other.") }}
"""
PAGE = """---
title: The wall law
description: How long a wave takes.
---

# The wall law

A wave of the longest replies takes {{ value("sweep", "wall_s", where={"osl": 2048}) }} on the twin.

{{ table("sweep", caption="Wall time of a wave. The longest takes " ~ value("sweep", "wall_s", where={"osl": 2048}) ~ ".") }}

{{ figure("wall", "sweep", caption="Wall time grows with reply length.", description="A line that rises with reply length.") }}

## Published beside simulated

Published: {{ value("pair", "published_s", where={"osl": 16}) }}, simulated: {{ value("pair", "simulated_s", where={"osl": 16}) }}
({{ relation("pair", where={"osl": 16}) }}).

{{ table("pair", caption="Printed figures beside the twin.") }}

{{ table("nothing", caption="A cluster would stand here.") }}

{{ sql("sweep") }}
"""


def sweep_rows() -> list[dict[str, object]]:
    return [
        {"osl": osl, "wall_s": 1.25 + osl * 0.0123, "p99_s": 2.5 + osl * 0.02, "n": 640, "answer": MARKUP}
        for osl in (16, 64, 256, 1024, 2048)
    ]


def fill(store: Store, *, measured: bool = False) -> None:
    """One simulated probe and one transcription; with `measured` one run on a real engine besides."""
    if measured:
        kinds = ("build_info", "metrics")
        real = {"id": "s1", "evidence": [{"kind": kind, "value": "72"} for kind in kinds]}
        with store.begin(
            Header("sweep", "cluster", "probe", "tests.report:fill", serve=real, clock="wall"), SWEEP
        ) as other:
            other.commit("all", {"waves": sweep_rows()})
            other.seal()
    serve = {"evidence": [], "version": "k3repro-twin"}
    header = Header(
        "sweep",
        "twin:mi325x",
        "probe",
        "tests.report:fill",
        parameters={"seed": 7},
        serve=serve,
        clock="virtual",
    )
    run = store.begin(header, SWEEP)
    run.commit("all", {"waves": sweep_rows()})
    run.seal(verdict={"ok": True, "reasons": []})
    rows = [{**row, "wall_s": row["wall_s"] + 0.07, "answer": None} for row in sweep_rows()]
    citation = {"document": "a publication", "sha256": "0" * 64, "locator": "table of walls"}
    store.transcribe("printed", "publication", citation=citation, schema=SWEEP, rows={"waves": rows})


def write_site(root: Path) -> Site:
    """The project's own site folder with one page, three queries and a figure of its own."""
    source = REPOSITORY / "site"
    for name in ("mkdocs.yml", "vocabulary.toml"):
        shutil.copyfile(source / name, root / name)
    for folder in ("pages", "queries", "figures"):
        (root / folder).mkdir()
    shutil.copyfile(source / "queries" / "artifacts.sql", root / "queries" / "artifacts.sql")
    shutil.copyfile(source / "pages" / "artifacts.md", root / "pages" / "artifacts.md")
    (root / "pages" / "index.md").write_text(INDEX, "utf-8")
    (root / "pages" / "wall-law.md").write_text(PAGE, "utf-8")
    for name, sql in QUERIES.items():
        (root / "queries" / f"{name}.sql").write_text(sql, "utf-8")
    (root / "figures" / "wall.py").write_text(FIGURE, "utf-8")
    (root / "figures" / "bars.py").write_text(BARS, "utf-8")
    (root / "pages" / "journey.md").write_text(JOURNEY, "utf-8")
    (root / "pages" / "long.md").write_text(LONG, "utf-8")
    return Site(root)
