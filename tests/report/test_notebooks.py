# ruff: noqa: E501
"""Executed notebooks as pages: what is bound is made again, everything else is text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from k3repro.errors import GateFailed, InputError
from k3repro.report import Site, audit_site, build_site, show
from k3repro.report._notebooks import MIME
from k3repro.store import Store

EVIL = "<script>alert()</script>"


def code(source: str, *outputs: dict[str, Any]) -> dict[str, Any]:
    return {
        "cell_type": "code",
        "source": source,
        "outputs": list(outputs),
        "metadata": {},
        "execution_count": 1,
    }


def bound(**payload: Any) -> dict[str, Any]:
    return {
        "output_type": "display_data",
        "metadata": {},
        "data": {MIME: payload, "text/html": EVIL, "text/plain": "x"},
    }


def stream(text: str) -> dict[str, Any]:
    return {"output_type": "stream", "name": "stdout", "text": text}


def write(site: Site, *cells: dict[str, Any]) -> None:
    path = site.executed / "report" / "03-wall-law.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        json.dumps({"cells": list(cells), "nbformat": 4, "nbformat_minor": 5, "metadata": {}}), "utf-8"
    )


def markdown(source: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "source": source, "metadata": {}}


CELLS = (
    markdown(f"# A wave\n\nProse with *stress*.\n\n## Sweep {EVIL}\n\n<b onclick='x'>raw</b>"),
    code(
        "x = 74  # <b>\n\n\tif x:\n    pass",
        stream(f"\x1b[31mtook\x1b[0m 74 ms \x00\x07 {EVIL} | `a` **b**\n\n   \n"),
        {"output_type": "display_data", "metadata": {}, "data": {"text/html": EVIL, "text/plain": "Table 74"}},
        {"output_type": "display_data", "metadata": {}, "data": {"application/javascript": EVIL}},
    ),
    code("show", bound(kind="value", query="sweep", options={"column": "wall_s", "where": {"osl": 16}, "label": "Shortest:"})),
    code("show", bound(kind="table", query="sweep", options={"caption": f"Waves {EVIL}"})),
    code("show", bound(kind="figure", name="wall", query="sweep", options={"caption": "c", "description": "d"})),
    code("1/0", {"output_type": "error", "ename": "ZeroDivisionError", "evalue": "division by zero", "traceback": ["\x1b[31m74"]}),
)  # fmt: skip
PAGE = "notebooks/03-wall-law.html"


def test_a_notebook_becomes_a_page_and_passes_the_audit(site: Site, store: Store) -> None:
    write(site, *CELLS)
    build_site(site, store)
    html = (site.build / PAGE).read_text("utf-8")
    assert EVIL not in html and "application/javascript" not in html and "<b onclick" not in html
    assert html.count('class="k3-spec"') == 1 and html.count("<table class") == 2
    assert "x = 74  # &lt;b&gt;\n\n\tif x:" in html.replace("&#10;", "\n").replace("&#9;", "\t")
    audit = audit_site(site.build, store)
    assert [str(finding) for finding in audit.findings] == []


@pytest.mark.parametrize("old", ["took 74 ms", "x = 74", "division by zero"])
def test_changed_text_of_a_notebook_is_found(site: Site, store: Store, old: str) -> None:
    write(site, *CELLS)
    build_site(site, store)
    path = site.build / PAGE
    html = path.read_text("utf-8")
    assert old in html
    path.write_text(html.replace(old, f"{old}5", 1), "utf-8")
    assert any(finding.code == "bound" for finding in audit_site(site.build, store).findings)


def test_numbers_in_notebook_prose_fail(site: Site, store: Store) -> None:
    write(site, markdown("# A wave\n\nIt takes 74 ms."))
    with pytest.raises(GateFailed, match="'74' has no artifact"):
        build_site(site, store)


@pytest.mark.parametrize(
    "payload",
    [
        {"kind": "value"},
        {"kind": "value", "query": "sweep", "options": {"column": "wall_s", "evil": 1}},
        {"kind": "html", "query": "sweep"},
        {"kind": "table", "query": "sweep", "options": 7},
        ["not", "an", "object"],
    ],
)
def test_a_malformed_bound_output_is_one_line(site: Site, store: Store, payload: Any) -> None:
    output = {"output_type": "display_data", "metadata": {}, "data": {MIME: payload}}
    write(site, code("x", output))
    with pytest.raises(InputError, match="03-wall-law.ipynb, cell 1"):
        build_site(site, store)


def test_show_emits_our_type_and_something_readable(
    site: Site, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("IPython")
    shown: list[dict[str, Any]] = []
    monkeypatch.setattr("IPython.display.display", lambda bundle, raw: shown.append(bundle))
    monkeypatch.setenv("K3REPRO_SITE", str(site.root))
    monkeypatch.setenv("K3REPRO_ARTIFACTS", str(store.root))
    show.value("sweep", "wall_s", where={"osl": 16}, label="Shortest:")
    show.table("sweep", caption="Waves")
    show.figure("wall", "sweep", caption="c", description="d")
    assert [bundle[MIME]["kind"] for bundle in shown] == ["value", "table", "figure"]
    assert "1.45" in shown[0]["text/html"] and "<svg" in shown[2]["text/html"]
    write(
        site,
        *(code("show", {"output_type": "display_data", "metadata": {}, "data": bundle}) for bundle in shown),
    )
    build_site(site, store)
    assert (site.build / PAGE).read_text("utf-8").count("k3-figure") >= 1


def test_a_file_that_is_no_notebook_is_one_line(site: Site, store: Store) -> None:
    path = site.executed / "report" / "x.ipynb"
    path.parent.mkdir(parents=True)
    path.write_text("{")
    with pytest.raises(InputError, match="not a notebook"):
        build_site(site, store)


def test_a_stage_shows_once_and_failed_runs_never(tmp_path: Path) -> None:
    site = Site(tmp_path / "site")
    for name in ("report/a", "report/b", "report/c.failed", "short/a", "short/d"):
        path = site.executed / f"{name}.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    shown = {stage: path.parent.name for stage, path in site.notebooks().items()}
    assert shown == {"a": "report", "b": "report", "d": "short"}
