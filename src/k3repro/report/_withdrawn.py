"""Withdrawn artifacts: a build fails until what cited them is gone, or struck through by name.

`site/withdrawn.toml` acknowledges: `[[withdrawn]]` with `seal` (its beginning) and `reason`. The artifact
browser then lists the artifact, struck through, with the reason that the ledger gives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from k3repro.errors import GateFailed, K3Error
from k3repro.report._allowlist import load_grammar, read_entries
from k3repro.report._behind import result_seals
from k3repro.report._markup import escape
from k3repro.report._queries import Query
from k3repro.report._sources import Sources
from k3repro.store import Catalog, Store

__all__ = ["check_withdrawn", "withdrawn_items"]


def withdrawn_items(store: Store) -> dict[str, str]:
    """Seal -> its line for the browser, for every withdrawn artifact that the ledger knows."""
    seals = store.state().seals
    found: dict[str, str] = {}
    for seal, withdrawal in sorted(store.withdrawn().items()):
        body: Mapping[str, Any] = seals[seal].body if seal in seals else {}
        what = escape(f"{body.get('name', '?')} about {body.get('subject', '?')}")
        through = " through its inputs" if withdrawal.through else ""
        found[seal] = (
            f'<li class="k3-withdrawn" data-seal="{escape(seal)}"><del>{what}</del> '
            f"<code>{escape(seal[:12])}</code> withdrawn{through}: {escape(withdrawal.reason)}</li>"
        )
    return found


def check_withdrawn(folder: Path, store: Store, queries: Mapping[str, Query]) -> None:
    """Refuse to build while a query would cite a withdrawn artifact that nothing replaced and nobody struck.

    Raises:
        GateFailed: the query, the artifact, and the reason of the withdrawal.
    """
    gone = _gone(folder, store)
    if not gone:
        return
    current = list(store.artifacts())
    before = Sources(Catalog.of([*current, *gone]), dict(queries), grammar=load_grammar(folder))
    withdrawn = store.withdrawn()
    for name in sorted(queries):
        cited = _cited(before, name) & {artifact.seal for artifact in gone}
        for seal in sorted(cited):
            raise GateFailed(
                f"cited artifact {seal[:12]}, withdrawn: {withdrawn[seal].reason}",
                where=queries[name].where,
                fix="Remove what shows it, or strike it in site/withdrawn.toml (seal, reason).",
            )


def _gone(folder: Path, store: Store) -> list[Any]:
    """Withdrawn artifacts whose name and subject nothing current carries, and that nobody acknowledged."""
    withdrawn = store.withdrawn()
    if not withdrawn:
        return []
    struck = tuple(
        entry["seal"] for entry in read_entries(folder / "withdrawn.toml", "withdrawn", ("seal", "reason"))
    )
    replaced = {(artifact.name, artifact.subject) for artifact in store.artifacts()}
    superseded = store.state().superseded
    artifacts: Sequence[Any] = store.artifacts(current=False)
    return [
        artifact
        for artifact in artifacts
        if artifact.seal in withdrawn
        and artifact.seal not in superseded
        and (artifact.name, artifact.subject) not in replaced
        and not (struck and artifact.seal.startswith(struck))
    ]


def _cited(sources: Sources, query: str) -> set[str]:
    """What a query would cite; nothing when it cannot run at all."""
    try:
        return result_seals(sources, query)
    except K3Error:
        return set()
