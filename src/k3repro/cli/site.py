"""`k3repro site`: build the static report from preserved artifacts, look at it, serve it on this machine."""

from __future__ import annotations

import json
from pathlib import Path

import click

from k3repro.cli import emit
from k3repro.errors import GateFailed, InputError

EPILOG_BUILD = """\b
Examples:
  k3repro site build                 build site/build, or say that nothing changed
  k3repro site build --force --json  build again; every finding as JSON
  k3repro site build --sql           with an SQL console (fetches DuckDB-WASM from npm once)
"""
EPILOG_SERVE = """\b
Examples:
  k3repro site serve                 http://127.0.0.1:8000
  k3repro site serve --port 0        any free port
"""


@click.group()
def site() -> None:
    """Build and serve the static report."""


@site.command(epilog=EPILOG_BUILD)
@click.option(
    "--site", "folder", type=click.Path(path_type=Path), help="The folder with mkdocs.yml [nearest site/]."
)
@click.option("--artifacts", type=click.Path(path_type=Path), help="The store [nearest artifacts/].")
@click.option("--force", is_flag=True, help="Build even when no input changed.")
@click.option("--sql", is_flag=True, help="Add the SQL console; it needs `k3repro site serve`.")
@click.option("--json", "as_json", is_flag=True, help="Print the result, or every finding, as JSON.")
def build(folder: Path | None, artifacts: Path | None, force: bool, sql: bool, as_json: bool) -> None:
    """Render pages, run mkdocs, verify every number, and replace site/build when all of it holds."""
    from k3repro.report import Site, build_site
    from k3repro.store import Store

    place = Site(folder.resolve()) if folder else Site.find()
    say = (lambda line: None) if as_json else (lambda line: click.echo(f"  {line}", err=True))
    try:
        report = build_site(place, Store(artifacts), force=force, sql=sql, say=say)
    except GateFailed as error:
        findings = error.context.get("findings", [])
        if as_json:
            emit({"ok": False, "findings": findings or [error.as_dict()]})
            raise SystemExit(error.exit_code) from None
        for finding in findings[1:]:
            click.echo(f"  {finding['where']}: {finding['what']}. {finding['fix']}", err=True)
        raise
    if as_json:
        emit({"ok": True, **report.as_dict()})
        return
    state = "unchanged" if report.skipped else f"built in {report.seconds:.1f} s"
    click.echo(f"{report.site / 'index.html'}")
    click.echo(
        f"{report.pages} pages, {report.values} bound values, {report.artifacts} artifacts: verified, {state}"
    )


@site.command(epilog=EPILOG_SERVE)
@click.option(
    "--site", "folder", type=click.Path(path_type=Path), help="The folder with mkdocs.yml [nearest site/]."
)
@click.option(
    "--port", default=8000, show_default=True, type=click.IntRange(0, 65535), help="0 picks a free one."
)
@click.option("--json", "as_json", is_flag=True, help="Print the address it listens on as one JSON line.")
def serve(folder: Path | None, port: int, as_json: bool) -> None:
    """Serve site/build on 127.0.0.1 (the site also opens from disk, without a server)."""
    from k3repro.report import Site, serve_folder

    place = Site(folder.resolve()) if folder else Site.find()
    if not (place.build / "index.html").is_file():
        raise InputError("no built site", where=str(place.build), fix="Run `k3repro site build` first.")
    serve_folder(
        place.build,
        port,
        lambda url: click.echo(json.dumps({"url": url}) if as_json else f"{url}  (Ctrl-C stops)"),
    )
