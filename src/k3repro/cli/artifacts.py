"""`k3repro artifacts`: list, show, query, export, retract and supersede sealed artifacts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import click
from rich.text import Text

from k3repro.cli import emit
from k3repro.cli._artifact_views import columns_table, facts_table, rows_table
from k3repro.cli.options import json_option, store_option
from k3repro.cli.tables import format_option, print_rows, printer
from k3repro.errors import UsageError
from k3repro.store import Artifact, Store, export_artifact
from k3repro.twin.trace import chrome_trace, request_phases


@click.group()
def artifacts() -> None:
    """List, show, query, export, draw, retract and prune artifacts.

    \b
    k3repro artifacts list --tier simulated
    k3repro artifacts show osl-sweep@twin:mi325x
    k3repro artifacts sql "SELECT subject, count(*) AS n FROM osl_sweep_requests GROUP BY subject"
    k3repro artifacts export osl-sweep@twin:mi325x --format csv --to rows/
    k3repro artifacts retract 707094655cc5 --reason "the clock was wrong"
    """


@artifacts.command("list")
@click.option("--name", help="Only artifacts of this name, for instance osl-sweep.")
@click.option("--subject", help="Only artifacts about this, for instance twin:mi325x.")
@click.option("--tier", help="Only artifacts of this tier.")
@click.option("--all", "everything", is_flag=True, help="Also superseded and withdrawn ones.")
@format_option
@store_option
@json_option
def list_(
    name: str | None,
    subject: str | None,
    tier: str | None,
    everything: bool,
    form: str,
    root: Path | None,
    as_json: bool,
) -> None:
    """List artifacts, oldest first. A name, subject or tier that nothing here has is an error.

    \b
    k3repro artifacts list
    k3repro artifacts list --name osl-sweep --all --format csv
    """
    store = Store(root)
    _known(store, {"name": name, "subject": subject, "tier": tier})
    found = [_summary(store, a) for a in store.artifacts(name, subject, tier, current=not everything)]
    if as_json:
        emit({"artifacts": found, "heads": store.heads()})
        return
    print_rows([_cells(summary) for summary in found], form, empty="no artifacts")
    if form == "table":
        click.echo(_footer(store, len(found)))


def _known(store: Store, wanted: Mapping[str, str | None]) -> None:
    """Refuse a filter that no artifact of this store has, with what it was near to."""
    for field, value in wanted.items():
        if value is None:
            continue
        there = sorted({str(entry.body[field]) for entry in store.state().seals.values()})
        if value not in there:
            near = get_close_matches(value, there, 3) or there[:12]
            fix = f"There are {', '.join(near)}." if near else "Nothing is sealed here yet."
            raise UsageError(f"no artifact with {field} {value!r}", where=f"--{field}", fix=fix)


def _state_of(store: Store, artifact: Artifact) -> str:
    """What became of an artifact: current, superseded, withdrawn, or its file is gone."""
    withdrawn, by = store.withdrawn().get(artifact.seal), store.state().superseded.get(artifact.seal)
    if withdrawn:
        return f"withdrawn: {withdrawn}"
    if by:
        return f"superseded by {by[0][:12]}: {by[1]}"
    return "current" if artifact.path.is_file() else "missing: its file is gone"


def _summary(store: Store, artifact: Artifact) -> dict[str, Any]:
    """An artifact as the ledger has it, so that a list opens no file."""
    body = store.state().seals[artifact.seal].body
    fields = (
        "seal",
        "data",
        "name",
        "subject",
        "tier",
        "basis",
        "run_id",
        "clock",
        "verdict_ok",
        "inputs",
        "rows",
        "bytes",
    )
    known = {
        "kind": body["artifact_kind"],
        "sealed": body["at"],
        "path": str(artifact.path),
        "state": _state_of(store, artifact),
    }
    return {name: body[name] for name in fields} | known


def _cells(summary: Mapping[str, Any]) -> dict[str, Any]:
    tier = summary["tier"] if summary["tier"] != "derived" else f"derived({summary['basis']})"
    current = summary["state"] == "current"
    verdict = "ok" if summary["verdict_ok"] else "invalid"
    return {
        "artifact": summary["name"], "subject": summary["subject"], "tier": tier,
        "verdict": verdict if current else re.split("[ :]", summary["state"])[0],
        "sealed": summary["sealed"][:10], "rows": sum(summary["rows"].values()),
        "kB": round(summary["bytes"] / 1000), "seal": summary["seal"][:12],
    }  # fmt: skip


def _footer(store: Store, count: int) -> str:
    parts = [f"{count} artifacts in {store.root}"]
    for folder, noun in ((".wip", "unfinished"), (".quarantine", "quarantined")):
        path = store.root / folder
        runs = (
            [p for p in path.iterdir() if p.is_dir() and not p.name.startswith(".")] if path.is_dir() else []
        )
        parts += [f"{len(runs)} {noun} runs in {path}"] if runs else []
    if removed := len(store.state().removed):
        parts.append(f"{removed} superseded ones removed")
    heads = ", ".join(head[:12] for head in store.heads()) or "none"
    return "; ".join(parts) + f". Ledger heads: {heads}."


@artifacts.command()
@click.argument("which")
@click.option("--table", "table_name", help="Which table's rows to show [default: the first].")
@click.option(
    "--rows", "limit", type=click.IntRange(0), default=10, show_default=True, help="How many rows to show."
)
@store_option
@json_option
def show(which: str, table_name: str | None, limit: int, root: Path | None, as_json: bool) -> None:
    """Show where an artifact comes from, its digests, parameters and first rows.

    WHICH is NAME@SUBJECT or the beginning of a seal.

    \b
    k3repro artifacts show osl-sweep@twin:mi325x
    k3repro artifacts show 707094655cc5 --table requests --rows 3
    """
    store = Store(root)
    artifact = store.find(which)
    state = _state_of(store, artifact)
    table = artifact.schema.table(table_name) if table_name else artifact.schema.tables[0]
    rows = artifact.rows(table.name)[:limit]
    if as_json:
        about = {
            "state": state,
            "seal": artifact.seal,
            "path": str(artifact.path),
            "document": artifact.document,
        }
        emit({**about, "table": table.name, "rows": rows})
        return
    console = printer()
    console.print(facts_table(artifact, state))
    for declared in artifact.schema.tables:
        count = f"{artifact.row_counts[declared.name]:,} rows, key {', '.join(declared.key)}"
        console.print(Text(f"\n{declared.name}: {count}", "bold"))
        console.print(columns_table(declared))
    if rows:
        console.print(Text(f"\nFirst {len(rows)} rows of {table.name}", "bold"))
        console.print(rows_table(rows))


@artifacts.command()
@click.argument("query")
@click.option("--artifact", "which", help="Query this artifact's tables instead of the catalog.")
@click.option(
    "--parameter", "-p", "pairs", multiple=True, metavar="NAME=VALUE", help="A value for $NAME in the query."
)
@click.option("--csv", "as_csv", is_flag=True, help="As --format csv.")
@format_option
@store_option
@json_option
def sql(
    query: str,
    which: str | None,
    pairs: tuple[str, ...],
    as_csv: bool,
    form: str,
    root: Path | None,
    as_json: bool,
) -> None:  # fmt: skip
    """Run one SELECT over all current artifacts, or over one of them.

    The catalog has a view per artifact name and table (osl_sweep_requests) and the table `artifacts`.

    \b
    k3repro artifacts sql "FROM artifacts SELECT name, subject, tier"
    k3repro artifacts sql 'SELECT * FROM wall_law_fits WHERE subject = $s' -p s=twin:mi325x --csv
    k3repro artifacts sql "SELECT count(*) AS n FROM requests" --artifact osl-sweep@twin:mi325x
    """
    store = Store(root)
    parameters = dict(_pair(text) for text in pairs)
    if which:
        rows = store.find(which).sql(query, parameters)
    else:
        with store.catalog() as catalog:
            rows = catalog.query(query, parameters)
    if as_json:
        emit(rows)
    else:
        print_rows(rows, "csv" if as_csv else form)


def _pair(text: str) -> tuple[str, Any]:
    name, separator, value = text.partition("=")
    if not separator:
        raise UsageError(
            f"{text!r} is not NAME=VALUE", where="--parameter", fix="Write it like -p subject=twin:mi325x."
        )
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


@artifacts.command()
@click.argument("which")
@click.option(
    "--to",
    "folder",
    type=click.Path(path_type=Path),
    default=Path(),
    show_default="here",
    help="Folder to write to.",
)
@click.option(
    "--format", "form", type=click.Choice(["csv", "json", "parquet"]), default="csv", show_default=True,
    help="File format of each table; units go into a header row or a file beside it.",
)  # fmt: skip
@store_option
@json_option
def export(which: str, folder: Path, form: str, root: Path | None, as_json: bool) -> None:
    """Write the rows of an artifact, with units and provenance, for other programs.

    \b
    k3repro artifacts export osl-sweep@twin:mi325x --format parquet --to rows/
    """
    written = export_artifact(Store(root).find(which), folder, form)
    if as_json:
        emit({"files": [str(path) for path in written]})
    else:
        click.echo("\n".join(str(path) for path in written))


@artifacts.command()
@click.argument("which")
@click.option(
    "--to", "path", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
    help="File to write [default: standard output].",
)  # fmt: skip
@store_option
@json_option
def trace(which: str, path: Path | None, root: Path | None, as_json: bool) -> None:
    """Draw requests on a time line: JSON that Perfetto and chrome://tracing open.

    A twin-journey shows prefill chunks, transfer and decode by DP rank; any artifact with requests shows
    what the client saw of them.

    \b
    k3repro artifacts trace twin-journey@mi325x --to journey.json
    k3repro artifacts trace envelope@twin:mi325x > envelope.json
    """
    artifact = Store(root).find(which)
    tables = {table.name for table in artifact.schema.tables}
    if "phases" in tables:
        phases = artifact.rows("phases")
    elif "requests" in tables:
        phases = list(request_phases(artifact.rows("requests")))
    else:
        fix = "Artifacts of probes have requests; `k3repro artifacts list` shows them."
        raise UsageError("nothing in it can be drawn", where=f"{artifact.name}@{artifact.subject}", fix=fix)
    text = json.dumps(chrome_trace(phases), separators=(",", ":"))
    if path is None:
        click.echo(text)
        return
    path.write_text(text, encoding="utf-8")
    if as_json:
        emit({"file": str(path), "phases": len(phases)})
    else:
        click.echo(f"{len(phases)} phases in {path}; open it at ui.perfetto.dev or in chrome://tracing")


@artifacts.command()
@click.argument("which")
@click.option("--reason", required=True, help="Why: it is shown wherever the artifact was cited.")
@store_option
@json_option
def retract(which: str, reason: str, root: Path | None, as_json: bool) -> None:
    """Withdraw an artifact and everything derived from it. The files stay; the ledger says why.

    \b
    k3repro artifacts retract 707094655cc5 --reason "the clock was wrong"
    """
    store = Store(root)
    before = set(store.withdrawn())
    entry = store.retract(which, reason)
    gone = {seal: str(why) for seal, why in store.withdrawn().items() if seal not in before}
    if as_json:
        emit({"entry": entry, "withdrawn": gone})
    else:
        click.echo(f"{len(gone)} artifacts are withdrawn (ledger entry {entry[:12]}):")
        click.echo("\n".join(f"  {why}" for why in gone.values()))


@artifacts.command("sign")
@click.option(
    "--key", type=click.Path(path_type=Path), required=True, metavar="FILE",
    help="SSH key, or its .pub when an agent holds it.",
)  # fmt: skip
@click.option(
    "--as",
    "name",
    default="",
    metavar="NAME",
    help="Also add the key to the store's signers under this name.",
)
@store_option
@json_option
def sign_(key: Path, name: str, root: Path | None, as_json: bool) -> None:
    """Sign today's ledger heads with an SSH key, and with them everything sealed so far.

    \b
    k3repro artifacts sign --key ~/.ssh/id_ed25519 --as me@example.org
    """
    store = Store(root)
    path = store.sign(key, name)
    if as_json:
        emit({"signature": str(path), "heads": store.heads()})
    else:
        click.echo(f"{path}: signed {', '.join(head[:12] for head in store.heads())}.")


@artifacts.command("prune")
@click.option("--reason", default="superseded, and nothing was made from it", show_default=True, help="Why.")
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@store_option
@json_option
def prune_(reason: str, dry_run: bool, root: Path | None, as_json: bool) -> None:
    """Remove files of superseded artifacts that nothing rests on; the ledger records each removal.

    What is current, withdrawn, measured, or an input of any of these stays. Git still has what was committed.

    \b
    k3repro artifacts prune --dry-run
    k3repro artifacts prune --reason "made again after the twin's clock was mended"
    """
    store = Store(root)
    went = store.prunable() if dry_run else store.prune(reason)
    if as_json:
        emit({"removed": [entry.seal for entry in went], "bytes": sum(e.body["bytes"] for e in went)})
        return
    for entry in went:
        click.echo(f"  {entry.body['name']}@{entry.body['subject']}  {entry.seal[:12]}")
    verb = "would go" if dry_run else "went"
    click.echo(f"{len(went)} files {verb}, {sum(e.body['bytes'] for e in went) / 1e6:.1f} MB.")


@artifacts.command()
@click.argument("old")
@click.argument("new")
@click.option("--reason", required=True, help="Why NEW takes the place of OLD.")
@store_option
@json_option
def supersede(old: str, new: str, reason: str, root: Path | None, as_json: bool) -> None:
    """Record that one artifact replaces another.

    \b
    k3repro artifacts supersede 707094655cc5 78f7c30e063d --reason "measured again on a fresh serve"
    """
    entry = Store(root).supersede(old, new, reason)
    if as_json:
        emit({"entry": entry})
    else:
        click.echo(f"Ledger entry {entry[:12]}.")
