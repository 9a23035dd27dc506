"""`k3repro audit artifacts|site`: exit 0: nothing found; 1: findings, one line each."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from k3repro.cli import emit
from k3repro.cli.options import json_option, store_option
from k3repro.store import Finding, Store, read_signed

heads_option = click.option(
    "--known-head", "heads", multiple=True, metavar="HASH",
    help="A ledger head printed elsewhere (site, badge); repeatable.",
)  # fmt: skip
signers_option = click.option(
    "--signers", type=click.Path(path_type=Path), metavar="FILE",
    help="OpenSSH allowed_signers: whose signatures count [default: the store's own list].",
)  # fmt: skip


@click.command("artifacts")
@click.option("--recompute", is_flag=True, help="Also run every derivation again and compare its rows.")
@click.option(
    "--full", is_flag=True, help="Read every file again, also those that did not change since the last audit."
)
@heads_option
@signers_option
@store_option
@json_option
def audit_artifacts(
    recompute: bool,
    full: bool,
    heads: tuple[str, ...],
    signers: Path | None,
    root: Path | None,
    as_json: bool,
) -> None:
    """Verify files, digests, ledger and tiers of a store.

    \b
    k3repro audit artifacts
    k3repro audit artifacts --full --recompute
    k3repro audit artifacts --known-head c10245d14a01631178e91974ef1aa2982c5b0d89316cbdd961d16d43342aae15
    """
    store = Store(root)
    findings = store.verify(full=full, known_heads=heads)
    signed = read_signed(store.root, store.ledger, signers)
    findings += [Finding("signature-wrong", where, what) for where, what in signed.problems]
    if recompute:
        findings += store.recompute()
    state = store.state()
    derived = (
        sum(artifact.kind == "derivation" for artifact in store.artifacts())
        if recompute and not findings
        else 0
    )
    counts = {
        "artifacts": len(state.seals),
        "withdrawn": len(state.withdrawn()),
        "superseded": len(state.superseded),
    }
    if as_json:
        emit(
            {
                "ok": not findings,
                "findings": [f.as_dict() for f in findings],
                "heads": store.heads(),
                **counts,
            }
        )
    else:
        again = f", {derived} derivations recomputed" if recompute else ""
        entries = len(store.ledger.entries())
        by = f", {len(signed.entries)} entries signed" if signed.entries else ""
        summary = f"{counts['artifacts']} artifacts and {entries} ledger entries verified{by}{again}"
        gone = f"; {counts['withdrawn']} withdrawn" if counts["withdrawn"] else ""
        _report(findings, f"{summary}{gone}. Heads: {', '.join(h[:12] for h in store.heads()) or 'none'}.")
    sys.exit(1 if findings else 0)


@click.command("site")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--rebuild", is_flag=True, help="Build it again from a trusted checkout; compare every byte.")
@click.option(
    "--checkout", type=click.Path(path_type=Path), metavar="PATH",
    help="Whose pages and queries to trust, at the commit that the site names"
    " [default: those that came with k3repro; with --rebuild the checkout here].",
)  # fmt: skip
@click.option(
    "--limit", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS",
    help="When to end it, in time of two processors [default: 60; with --rebuild 600].",
)  # fmt: skip
@heads_option
@signers_option
@json_option
def audit_site(
    folder: Path,
    limit: float | None,
    rebuild: bool,
    checkout: Path | None,
    heads: tuple[str, ...],
    signers: Path | None,
    as_json: bool,
) -> None:
    """Check a built site: its numbers against its artifacts, sentences and queries against k3repro's own.

    Nothing of the folder is executed. Where the pages are others than k3repro's, sentences and queries are
    their author's word, unless --checkout has them. --rebuild builds it again and compares every byte.

    \b
    k3repro audit site site/build
    k3repro audit site site/build --rebuild
    k3repro audit site site/build --signers allowed_signers
    """
    from k3repro.report import audit_within  # late: only this command needs the site's libraries

    checked = audit_within(
        folder,
        most_s=limit or (600.0 if rebuild else 60.0),
        signers=signers,
        known_heads=heads,
        rebuild=rebuild,
        checkout=checkout,
    )
    if as_json:
        emit(checked.as_dict())
    else:
        for note in checked.notes:
            click.echo(f"note: {note}")
        _report(checked, f"{folder}: nothing found.")
    sys.exit(0 if checked.ok else 1)


def _report(findings: Iterable[Any], summary: str) -> None:
    found = list(findings)
    for finding in found:
        click.echo(str(finding))
    click.echo(f"{len(found)} finding{'s' * (len(found) > 1)}." if found else summary)
