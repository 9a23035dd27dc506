"""The SQL console: the engine is the pinned one, the page says what it needs, every artifact opens in it."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from small_site import REPOSITORY, write_site
from tests.report.test_browser import browser, outside  # noqa: F401

from k3repro.errors import MachineError
from k3repro.report import Sources, audit_site, build_site, load_queries, serve_folder
from k3repro.report._allowlist import load_grammar
from k3repro.report._bound import Known, PageCheck
from k3repro.report._console import console_html
from k3repro.report._engine import _pins, engine_digests, fetch_package
from k3repro.report._html import parse_page
from k3repro.store import Store


def check(sources: Sources, html: str) -> list[str]:
    root, _ = parse_page(f"<html><body><article>{html}</article></body></html>".encode())
    page = PageCheck("sql.html", root, sources, Known(Path(), frozenset()), load_grammar(REPOSITORY / "site"))
    page.run()
    return [str(finding) for finding in page.findings]


MUTANTS = {
    "a tier": ('"tier":"simulated"', '"tier":"measured"'),
    "a file": ('"files":{"', '"files":{"0'),
    "a row count": ('\\"waves\\":5', '\\"waves\\":50'),
    "an answer typed in": ("></output>", ">74</output>"),
    "the example": ("SELECT name", "SELECT 74, name"),
}


@pytest.mark.parametrize("name", sorted(MUTANTS))
def test_a_console_changed_by_hand_is_found(store: Store, name: str) -> None:
    files = {a.seal: (f"artifacts/{a.seal}.duckdb", 1) for a in store.artifacts()}
    sources = Sources(store.catalog(), load_queries(REPOSITORY / "site" / "queries"), files)
    html = console_html(sources)
    assert check(sources, html) == []
    assert MUTANTS[name][0] in html, html[:3000]
    assert check(sources, html.replace(*MUTANTS[name], 1))


def test_other_bytes_than_those_pinned_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "npm"
    fake.write_text('#!/bin/sh\necho x > "$5/x.tgz"\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(MachineError, match="is not what is pinned"):
        fetch_package("x", "1", "sha512-x")
    assert not list((tmp_path / "cache").rglob("*.tgz"))


def test_every_file_of_the_engine_is_pinned() -> None:
    named = {name for package in _pins()["packages"] for name in package["files"].values()}
    assert named == set(_pins()["files"]) and len(engine_digests()) == len(named)


@pytest.fixture(scope="module", params=["small", pytest.param("all", marks=pytest.mark.nightly)])
def served(
    request: pytest.FixtureRequest, store: Store, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Path]]:
    """A small site with the console, on a port: over a small store, nightly over every artifact there is."""
    try:
        for package in _pins()["packages"]:
            fetch_package(package["name"], package["version"], package["integrity"])
    except MachineError as error:
        if "npm" in os.environ.get("K3_REQUIRE", ""):
            pytest.fail(str(error))
        pytest.skip(f"DuckDB-WASM cannot be fetched: {error.what}")
    root = tmp_path_factory.mktemp("console") / "site"
    root.mkdir()
    site = write_site(root)
    for page in ("wall-law.md", "journey.md", "long.md"):
        (site.pages / page).unlink()
    (site.pages / "index.md").write_text(
        "---\ntitle: Home\ndescription: Nothing.\n---\n\n# Home\n\n[artifacts](artifacts.md)\n", "utf-8"
    )
    shown = Store(REPOSITORY / "artifacts") if request.param == "all" else store
    report = build_site(site, shown, sql=True)
    address: list[str] = []
    ready = threading.Event()
    threading.Thread(
        target=serve_folder,
        args=(report.site, 0, lambda url: (address.append(url), ready.set())),
        daemon=True,
    ).start()
    assert ready.wait(600)
    yield address[0], report.site


@pytest.mark.browser
@pytest.mark.slow
def test_every_shipped_artifact_opens_in_the_page(browser: Any, served: tuple[str, Path]) -> None:  # noqa: F811
    url, folder = served
    page, heard = browser.new_page(), []
    page.on("console", lambda message: heard.append(message.text))
    page.on("pageerror", lambda error: heard.append(str(error)))
    page.on(
        "request",
        lambda request: (
            heard.append(request.url) if outside(request.url) and not request.url.startswith(url) else None
        ),
    )
    page.goto(f"{url}/sql.html")
    page.get_by_role("button", name="Load the engine and run").click()
    page.get_by_text("rows. Computed here").wait_for(timeout=600_000)
    store = Store(folder / "artifacts")
    assert page.locator(".k3-console table tbody tr").count() == len(store.artifacts())
    counts = page.evaluate("document.querySelector('.k3-console').k3Views()")
    rows: dict[str, int] = {}
    for artifact in store.artifacts():
        for table, number in artifact.document["rows"].items():
            view = f"{artifact.name.replace('-', '_')}_{table}"
            rows[view] = rows.get(view, 0) + number
    assert counts == rows and len(counts) > 1
    assert heard == []
    page.locator("textarea").fill("SELECT nothing FROM artifacts")
    page.get_by_role("button", name="Run").click()
    page.get_by_text("Binder Error").wait_for()
    page.goto((folder / "sql.html").as_uri())
    page.get_by_text("From disk a browser lets no worker start").wait_for()
    page.close()


@pytest.mark.browser
@pytest.mark.slow
def test_the_site_with_the_console_passes_audit(served: tuple[str, Path]) -> None:
    _, folder = served
    found = audit_site(folder, alone=True).findings
    # some of k3repro's pages and queries, with a list of exemptions of the test's own: just that is told
    assert {(finding.code, finding.where) for finding in found} == {
        ("shipped", "gate/exemptions.toml"),
        ("shipped", "site/queries"),
    }
    manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    assert "assets/duckdb/duckdb-eh.wasm" in manifest["files"]
