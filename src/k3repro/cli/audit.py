"""`k3repro audit`: the commands that check something, each imported when called."""

from __future__ import annotations

import click

from k3repro.cli import LazyGroup

_COMMANDS = {
    "artifacts": (
        "k3repro.cli.audit_store:audit_artifacts",
        "Verify files, digests, ledger and tiers of a store.",
    ),
    "check": ("k3repro.cli.check:check_command", "Recompute the numbers of any publication from each other."),
    "claims": ("k3repro.cli.claims:claims_command", "Audit the claims of a publication by its ledger."),
    "diff": ("k3repro.cli.claims:diff_command", "Compare two versions of a study number by number."),
    "export": ("k3repro.cli.claims:export_command", "Write a built site as RO-Crate or in-toto statement."),
    "extract": ("k3repro.cli.claims:extract_command", "Draft a ledger of claims from a document."),
    "site": ("k3repro.cli.audit_store:audit_site", "Check a built site with nothing but its own files."),
}


@click.group(cls=LazyGroup, table=_COMMANDS)
def audit() -> None:
    """Check a publication, artifacts, a built site or a ledger of claims.

    \b
    k3repro audit check post.md
    k3repro audit artifacts --recompute
    k3repro audit site site/build
    k3repro audit claims amd-di-kimi-k3
    k3repro audit levels artifacts/publications/node/mi325x-cookbook.toml
    k3repro audit extract post.md --to ledger.toml
    k3repro audit diff earlier-report amd-di-kimi-k3
    """
