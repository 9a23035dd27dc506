"""`k3repro audit claims|extract|diff`: numbers against arithmetic, artifacts and other versions."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path

import click

from k3repro.claims import (
    Audit,
    Change,
    Library,
    StoreSource,
    audit_json,
    audit_lines,
    build_skeleton,
    diff_ledgers,
    diff_sources,
    draft_ledger,
    export_report,
    read_source,
    sarif,
    tree_lines,
    verdict_json,
    write_skeleton,
)
from k3repro.cli import emit
from k3repro.cli.options import json_option, store_option
from k3repro.errors import InputError
from k3repro.store import Store

_FILE = click.Path(path_type=Path)


@click.command("claims")
@click.argument("ledger", required=False)
@click.option(
    "--source", type=_FILE, metavar="FILE", help="The document itself: check that the skeleton is true."
)
@click.option("--all", "everything", is_flag=True, help="Print every claim, not only the flagged ones.")
@click.option(
    "--claim", "one", metavar="ID", help="Only this claim, with its derivation down to what is printed."
)
@click.option("--sarif", "sarif_file", type=_FILE, metavar="FILE", help="Also write SARIF 2.1.0 to FILE.")
@click.option("--no-artifacts", is_flag=True, help="Arithmetic only: do not open the store.")
@store_option
@json_option
def claims_command(
    ledger: str | None,
    source: Path | None,
    everything: bool,
    one: str | None,
    sarif_file: Path | None,
    no_artifacts: bool,
    root: Path | None,
    as_json: bool,
) -> None:
    """Audit the claims of a publication: supported, repeats another, contradicted, undecidable or unbacked.

    LEDGER is the id or path of a ledger of claims (default: every ledger of the store). Exit 0: nothing found
    and full coverage; 1: findings; 2: the ledger is wrong, or the source no longer contains an anchor.

    \b
    k3repro audit claims
    k3repro audit claims amd-di-kimi-k3 --json
    k3repro audit claims amd-di-kimi-k3 --claim max.mi325x
    k3repro audit claims kimi-k3-summary --source summary.txt
    k3repro audit claims my-ledger.toml --sarif claims.sarif
    """
    store = Store(root)
    library = Library(store.root)
    if source is not None and ledger is None:
        ledger = library.of_source(source)
    names = [ledger] if ledger else library.names()
    if not names:
        raise InputError(
            "there is no ledger of claims", where=str(library.root),
            fix="Draft one with `k3repro audit extract FILE`, or name one.",
        )  # fmt: skip
    artifacts = (
        None if no_artifacts or not any(library.has_bindings(name) for name in names) else StoreSource(store)
    )
    audits = [library.audit(name, source=source, artifacts=artifacts) for name in names]
    if sarif_file is not None:
        sarif_file.write_text(json.dumps(sarif(audits, source=source), indent=2) + "\n", encoding="utf-8")
    if one is not None:
        _print_one(audits, one, as_json=as_json)
    elif as_json:
        emit(audit_json(audits))
    else:
        _print(audits, everything=everything)
    sys.exit(0 if all(audit.ok for audit in audits) else 1)


def _print_one(audits: list[Audit], name: str, *, as_json: bool) -> None:
    if len(audits) != 1:
        raise InputError("--claim needs the ledger it stands in", fix="Name the ledger before --claim.")
    lines = list(tree_lines(audits[0], name))
    if as_json:
        verdict = next(verdict for verdict in audits[0].verdicts if verdict.claim.id == name)
        emit(verdict_json(verdict, audits[0].ledger))
    else:
        click.echo("\n".join(lines))


def _print(audits: Iterable[Audit], *, everything: bool) -> None:
    for audit in audits:
        for line in audit_lines(audit, everything=everything):
            click.echo(line)


@click.command("extract")
@click.argument("file", type=_FILE)
@click.option("--id", "name", help="Id of the ledger [default: the file's name].")
@click.option("--to", type=_FILE, metavar="LEDGER", help="Write the draft here instead of printing it.")
@click.option("--skeleton", type=_FILE, metavar="FILE", help="Write the document's skeleton here.")
@click.option("--relations", is_flag=True, help="Start with the relations that `audit check` recognises.")
@json_option
def extract_command(
    file: Path, name: str | None, to: Path | None, skeleton: Path | None, relations: bool, as_json: bool
) -> None:
    """Draft a ledger of claims from a Markdown, HTML or text document.

    Every numeral gets a line: tables by row and column, units and hedges where they were found. Relations are
    yours to add; --relations starts with those that can be recognised. The skeleton lets anybody audit the
    ledger without the document.

    \b
    k3repro audit extract post.md > ledger.toml
    k3repro audit extract report.html --to report.toml
    k3repro audit extract post.md --relations --to post.toml
    k3repro audit extract post.md --to post.toml --skeleton post.json
    k3repro audit claims report.toml --source report.html
    """
    source = read_source(file)
    known = {}
    if relations:
        from k3repro.cli._relations import known_of  # late: it loads the readers of any document

        known = known_of(file, source)
    draft = draft_ledger(name or file.stem, source, known)
    for path in (to, skeleton):
        if path is not None and path.exists():
            raise InputError(
                "exists already", where=str(path), fix="Choose another name: a draft never overwrites work."
            )
    if to is not None:
        to.write_text(draft.toml, encoding="utf-8")
    if skeleton is not None:
        write_skeleton(build_skeleton(name or file.stem, source), skeleton)
    summary = {
        "numerals": draft.numerals,
        "in_tables": draft.in_tables,
        "with_unit": draft.with_unit,
        "with_hedge": draft.with_hedge,
        "skipped": draft.skipped,
        "without_unit": draft.unplaced,
        "with_relation": sum(bool(entry.follows) for entry in known.values()),
    }
    if as_json:
        emit({**summary, "ledger": draft.toml})
        return
    if to is None:
        click.echo(draft.toml)
    line = ", ".join(f"{count} {what.replace('_', ' ')}" for what, count in summary.items())
    click.echo(f"{file.name}: {line}.", err=True)


@click.command("diff")
@click.argument("old", type=_FILE)
@click.argument("new", type=_FILE)
@click.option("--all", "everything", is_flag=True, help="Print unchanged numbers too.")
@store_option
@json_option
def diff_command(old: Path, new: Path, everything: bool, root: Path | None, as_json: bool) -> None:
    """Compare two versions of a study number by number: two ledgers, or two documents.

    Ledgers (id or .toml) are matched by claim id, with the verdict each number got; documents by the words
    around each numeral. Exit 1 when a number changed.

    \b
    k3repro audit diff earlier-report amd-di-kimi-k3
    k3repro audit diff report-v1.html report-v2.html --json
    """
    changes = _changes(old, new, Library(Store(root).root))
    if as_json:
        tally = {
            kind: sum(c.kind == kind for c in changes)
            for kind in ("same", "changed", "unit", "added", "removed")
        }
        emit({"counts": tally, "changes": [change.as_dict() for change in changes]})
    else:
        _print_changes(changes, everything=everything)
    sys.exit(1 if any(change.kind in ("changed", "unit") for change in changes) else 0)


def _changes(old: Path, new: Path, library: Library) -> list[Change]:
    ledgers = [path.suffix == ".toml" or not path.suffix for path in (old, new)]
    if ledgers[0] != ledgers[1]:
        raise InputError(
            "compares two ledgers or two documents",
            fix="Draft a ledger of the document first: audit extract.",
        )
    if all(ledgers):
        return diff_ledgers(library.ledger(old), library.ledger(new))
    return diff_sources(read_source(old), read_source(new))


def _print_changes(changes: list[Change], *, everything: bool) -> None:
    for change in changes:
        if change.kind in ("changed", "unit") or everything:
            ratio = f" (x{change.ratio:.4g})" if change.ratio is not None else ""
            verdicts = f"  [{change.verdicts[0]} -> {change.verdicts[1]}]" if all(change.verdicts) else ""
            click.echo(
                f"{change.kind:8} {change.id}: {change.old or '-'} -> {change.new or '-'}{ratio}{verdicts}"
            )
    tally = {
        kind: sum(c.kind == kind for c in changes) for kind in ("same", "changed", "unit", "added", "removed")
    }
    click.echo(", ".join(f"{count} {kind}" for kind, count in tally.items()) + ".")


@click.command("export")
@click.argument("folder", type=_FILE)
@click.option("--to", type=_FILE, required=True, metavar="DIR", help="New folder for the export.")
@click.option("--date", required=True, metavar="YYYY-MM-DD", help="Publication date written into the crate.")
@click.option("--name", default="k3repro report", show_default=True, help="Name of the crate.")
@click.option(
    "--license", "license_id", default="CC-BY-4.0", show_default=True, help="Licence of the data (SPDX)."
)
@click.option(
    "--ledger", "ledgers", multiple=True, help="Ledger to audit into the export [default: all]; repeatable."
)
@store_option
@json_option
def export_command(
    folder: Path,
    to: Path,
    date: str,
    name: str,
    license_id: str,
    ledgers: tuple[str, ...],
    root: Path | None,
    as_json: bool,
) -> None:
    """Export a built report with its artifacts as an RO-Crate with an in-toto statement over every file.

    \b
    k3repro audit export site/build --to crate --date 2026-11-29
    """
    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", date):
        raise InputError(f"{date!r} is no date", fix="Write it as YYYY-MM-DD.")
    library = Library(Store(root).root)
    audits = [library.audit(ledger) for ledger in ledgers or library.names()]
    written = export_report(folder, to, audits, name=name, date=date, license_id=license_id)
    if as_json:
        emit({"written": [path.as_posix() for path in written]})
    else:
        for path in written:
            click.echo(path.as_posix())
