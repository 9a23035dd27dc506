"""`k3repro site`: what it prints, and its exit codes."""

from __future__ import annotations

import json
import threading
import urllib.request
from pathlib import Path

import pytest
from click.testing import CliRunner

from k3repro.cli.site import site as command
from k3repro.errors import GateFailed, InputError, MachineError
from k3repro.report import Site, serve_folder
from k3repro.report._serve import HOST
from k3repro.store import Store


def run(site: Site, store: Store, *arguments: str) -> object:
    return CliRunner().invoke(
        command, ["build", "--site", str(site.root), "--artifacts", str(store.root), *arguments]
    )


def test_build_says_where_and_how_much(site: Site, store: Store) -> None:
    result = run(site, store)
    assert result.exit_code == 0 and "index.html" in result.output and "bound values" in result.output
    again = json.loads(run(site, store, "--json").output)
    assert again["ok"] and again["skipped"] and again["values"] > 30


def test_findings_come_as_json_and_as_lines(site: Site, store: Store) -> None:
    page = site.pages / "index.md"
    page.write_text(page.read_text("utf-8") + "\nAbout 74 ms, or twenty.\n", "utf-8")
    result = run(site, store, "--json")
    findings = json.loads(result.output)["findings"]
    assert result.exit_code == 1 and {"74", "twenty"} <= {
        finding["what"].split("'")[1] for finding in findings
    }
    assert all(finding["where"] and finding["fix"] for finding in findings)
    assert isinstance(run(site, store).exception, GateFailed)


def test_serve_without_a_site_is_one_line(site: Site) -> None:
    result = CliRunner().invoke(command, ["serve", "--site", str(site.root)])
    assert isinstance(result.exception, InputError) and "site build" in str(result.exception)


def test_the_server_is_on_loopback_and_a_taken_port_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("hello")
    ready: list[str] = []
    event = threading.Event()

    def said(url: str) -> None:
        ready.append(url)
        event.set()

    threading.Thread(target=serve_folder, args=(tmp_path, 0, said), daemon=True).start()
    assert event.wait(600) and ready[0].startswith(f"http://{HOST}:") and HOST == "127.0.0.1"
    with urllib.request.urlopen(ready[0], timeout=600) as answer:
        assert answer.read() == b"hello" and answer.headers["X-Content-Type-Options"] == "nosniff"
    with pytest.raises(MachineError, match="Choose another"):
        serve_folder(tmp_path, int(ready[0].rsplit(":", 1)[1]), said)
