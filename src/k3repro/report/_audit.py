"""`audit site DIR`: a built site against the artifacts in its own folder, trusting neither.

Nothing of the folder is executed: artifacts open in the store's locked-down process, SQL runs there as single
SELECTs, charts are compared as data and drawn by the installed Vega, scripts must be the installed ones.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from k3repro.errors import InputError, K3Error
from k3repro.report._allowlist import load_exemptions, load_grammar, own_names
from k3repro.report._figures import use_utc
from k3repro.report._files import irregular, tree_digests
from k3repro.report._finding import Finding, found
from k3repro.report._own import OwnPages
from k3repro.report._queries import load_queries
from k3repro.report._rebuild import rebuild as rebuilt
from k3repro.report._shipped import installed_site, own_pages, unlike_shipped
from k3repro.report._site import Site
from k3repro.report._sources import Sources
from k3repro.report._verify import read_manifest, verify_tree
from k3repro.store import (
    Ledger,
    Store,
    UntrustedCatalog,
    open_untrusted_catalog,
    read_signed,
    recount_untrusted,
)

__all__ = ["SiteAudit", "audit_site"]


# Seconds for one step of the reader. After the last file it joins all; if that outlasts the bound, the last
# file is refused, and with it every number that cites it.
PATIENCE_S = 240.0
# Bytes that a file of a site may hold, by its kind, and a site in all: what is larger is not read.
_MOST_BYTES = {
    ".html": 4_000_000,
    ".json": 8_000_000,
    ".sql": 1_000_000,
    ".toml": 1_000_000,
    ".svg": 8_000_000,
}
_ANY_BYTES, _ALL_BYTES, _LEDGER_BYTES, _FILES = 64_000_000, 1_000_000_000, 32_000_000, 20_000
_WORK_S = 60.0
_UNKNOWN_HEAD = "known elsewhere as a head, and not part of this site's ledger"


@dataclass
class SiteAudit:
    """What an audit of a site saw; `notes` are no findings but what a reader of the verdict must know."""

    folder: Path
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    pages: int = 0
    values: int = 0
    artifacts: int = 0

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    @property
    def ok(self) -> bool:
        return not self.findings

    def as_dict(self) -> dict[str, Any]:
        """The audit as `--json` prints it."""
        return {
            "ok": self.ok,
            "folder": str(self.folder),
            "pages": self.pages,
            "values": self.values,
            "artifacts": self.artifacts,
            "notes": self.notes,
            "findings": [finding.as_dict() for finding in self.findings],
        }


def audit_site(
    folder: Path,
    store: Store | None = None,
    *,
    alone: bool = False,
    signers: Path | None = None,
    known_heads: Sequence[str] = (),
    rebuild: bool = False,
    checkout: Path | None = None,
) -> SiteAudit:
    """Check a built site, and its ledger against a local store that shares its history.

    store: default the one whose folder the site stands in, else that of the working directory if it knows any
    ledger entry of the site. alone: use none. signers: whose signatures count (OpenSSH allowed_signers);
    default the site's own list. known_heads: ledger heads that were printed elsewhere. checkout: whose
    pages and queries it is compared with; default those of this k3repro. rebuild: build it again from the
    checkout (default: that of the working directory) and compare every byte, instead of checking the folder
    from itself.

    Raises:
        InputError: the folder is no built site.
    """
    folder = folder.resolve()
    if not (folder / "index.html").is_file():
        raise InputError("no built site", where=str(folder), fix="Name the folder that holds index.html.")
    use_utc()
    audit = SiteAudit(folder)
    audit.findings += [
        found(name, what, "file", "Ship files only.") for name, what in irregular(folder).items()
    ]
    audit.findings += _sizes(folder)
    if audit.findings:
        audit.notes.append("not audited further: such a file must not even be opened")
        return audit
    ledger = Ledger(folder / "artifacts" / "ledger")
    state = Store(folder / "artifacts").state()
    current = {f"artifacts/{entry.body['file']}" for entry in state.current()}
    paths = sorted((folder / "artifacts").rglob("*.duckdb"))
    shown = [path for path in paths if _relative(path, folder) in current]
    with ThreadPoolExecutor(2) as beside, ExitStack() as stack:
        opening = beside.submit(open_untrusted_catalog, shown, timeout_s=PATIENCE_S, recount=False)
        stack.callback(_close, opening)
        counting = beside.submit(recount_untrusted, paths, timeout_s=PATIENCE_S)
        manifest = read_manifest(folder)
        audit.findings += _manifest(folder, manifest)
        audit.findings += _ledger(folder, ledger, manifest)
        audit.findings += [
            found(f"ledger {head[:12]}", _UNKNOWN_HEAD, "heads")
            for head in known_heads
            if head not in ledger.entries()
        ]
        catalog = opening.result()
        audit.findings += [
            found(f"artifacts {seal[:12]}", "has no entry in the ledger that ships with it", "ledger")
            for seal in sorted(set(catalog.documents) - set(state.seals))
        ]
        files = {seal: (_relative(path, folder), path.stat().st_size) for seal, path in catalog.paths.items()}
        if not rebuild:
            _verify(audit, catalog, files, signers, Site.find(checkout) if checkout else installed_site())
        counted = counting.result()
        audit.findings += list({str(item): item for item in (*counted.findings, *catalog.findings)}.values())
        if rebuild and counted.findings:
            audit.notes.append("not built again: artifacts were refused")
        elif rebuild:
            _signatures(audit, signers)
            audit.findings += rebuilt(folder, checkout, catalog, audit.notes)
    audit.artifacts = len(counted.documents)
    seals_of_site = set(counted.documents)
    audit.notes += _let_through(folder / "gate", audit.findings)
    if store is None and not alone:
        store = _local_store(folder, ledger, audit.notes)
    if store is not None:
        audit.findings += _since(store, manifest, seals_of_site, audit.notes)
    return audit


def _close(opening: Future[UntrustedCatalog]) -> None:
    if opening.exception() is None:
        opening.result().close()


def _sizes(folder: Path) -> Iterator[Finding]:
    """Files larger than they can be, before anything reads them: an artifact has the size its ledger says."""
    paths = sorted(item for item in folder.rglob("*") if item.is_file())
    if len(paths) > _FILES:
        yield found(str(folder.name), f"holds {len(paths)} files, and {_FILES} are the most", "size")
        return
    sizes = {_relative(path, folder): path.stat().st_size for path in paths}
    ledger = sum(size for name, size in sizes.items() if name.startswith("artifacts/ledger/"))
    if sum(sizes.values()) > _ALL_BYTES:  # then not even the ledger is read
        large = {name: size for name, size in sizes.items() if size > _ANY_BYTES}
        for name, size in large.items():
            yield _too_large(name, size, _ANY_BYTES)
        if not large:
            yield _too_large(folder.name, sum(sizes.values()), _ALL_BYTES)
        return
    if ledger > _LEDGER_BYTES:
        yield _too_large("artifacts/ledger", ledger, _LEDGER_BYTES)
        return
    entries = Ledger(folder / "artifacts" / "ledger").entries().values()
    sealed = {f"artifacts/{entry.body.get('file')}": entry.body.get("bytes") for entry in entries}
    for name, size in sizes.items():
        most = sealed.get(name, _MOST_BYTES.get(Path(name).suffix, _ANY_BYTES))
        if isinstance(most, int) and size > most:
            yield _too_large(name, size, most)


def _too_large(name: str, size: int, most: int) -> Finding:
    return found(name, f"holds {size} bytes, and {most} are the most", "size", "Restore it, or remove it.")


def _let_through(gate: Path, findings: list[Finding]) -> Iterator[str]:
    """What the site's own lists let pass: its reader must know, since the site itself wrote them."""
    try:
        for item in load_exemptions(gate):
            yield f"exempted: {item.token!r} in {item.element} of {item.page}: {item.reason}"
        for entry in own_names(gate):
            yield f"passes as a name: {entry['term']!r}: {entry['reason']}"
    except K3Error as error:
        findings.append(found(error.where or "gate", error.what, "gate", error.fix))


def _local_store(folder: Path, ledger: Ledger, notes: list[str]) -> Store | None:
    """The store of the project that the site stands in; else one at hand that shares history with it."""
    for parent in folder.parents:
        if (parent / "artifacts" / "ledger").is_dir():
            return Store(parent / "artifacts")
    with contextlib.suppress(K3Error):
        near = Store()
        theirs = near.ledger.entries()
        if set(theirs) & set(ledger.entries()):
            return near
        if theirs and _same_study(near, ledger):
            return near
        if theirs:
            notes.append(f"{near.root} has another history: nothing is known about withdrawals since")
            return None
    notes.append("no local store shares this site's history: withdrawals since are unknown")
    return None


def _same_study(store: Store, ledger: Ledger) -> bool:
    """Whether a store and a ledger name the same artifacts, though they share no entry: one is forged."""
    names = [
        {(entry.body.get("name"), entry.body.get("subject")) for entry in each.entries().values()}
        for each in (store.ledger, ledger)
    ]
    return len(names[0] & names[1]) > 1


def _verify(
    audit: SiteAudit,
    catalog: Any,
    files: dict[str, tuple[str, int]],
    signers: Path | None,
    trusted: Site | None,
) -> None:
    try:
        grammar = load_grammar(audit.folder / "gate")
        names = _signatures(audit, signers)
        sources = Sources(
            catalog, load_queries(audit.folder / "queries"), files, vouched=names, grammar=grammar
        )
        own = own_pages(trusted, sources) if trusted else None
        pages = own if isinstance(own, OwnPages) else None
        outcome = verify_tree(audit.folder, sources, own=pages, most_s=_WORK_S)
        if trusted:
            audit.findings += unlike_shipped(audit.folder, trusted, sources, own, outcome, audit.notes)
    except K3Error as error:
        audit.findings.append(found(error.where or "site", error.what, "site", error.fix))
        return
    audit.findings += outcome.findings
    audit.pages, audit.values = outcome.pages, outcome.values


def _signatures(audit: SiteAudit, signers: Path | None) -> dict[str, frozenset[str]]:
    """Who vouches for which artifact, and what a reader of the audit must know about it."""
    store = Store(audit.folder / "artifacts")
    signed = read_signed(store.root, store.ledger, signers)
    audit.findings += [found(f"artifacts/{where}", what, "signature") for where, what in signed.problems]
    names = sorted(set[str]().union(*signed.entries.values()))
    if names and signers is None:
        audit.notes.append(f"signed by {', '.join(names)}, says the site's own list: give --signers to know")
    elif not names:
        audit.notes.append("nobody signed this ledger: who measured, and whether, is the site's own word")
    return {seal: who for seal, entry in store.state().seals.items() if (who := signed.of(entry))}


def _manifest(folder: Path, manifest: dict[str, Any]) -> Iterator[Finding]:
    """Every file that is not as the build left it."""
    recorded = manifest.get("files")
    if not isinstance(recorded, dict):
        yield found(
            "manifest.json", "is missing or unreadable", "manifest", "Audit the folder as it was built."
        )
        return
    present = tree_digests(folder, skip=["manifest.json"])
    for name in sorted(recorded.keys() | present.keys()):
        if recorded.get(name) != present.get(name):
            what = (
                "is missing"
                if name not in present
                else "came later"
                if name not in recorded
                else "was changed"
            )
            yield found(name, f"{what} since the site was built", "manifest", "Restore it, or build again.")


def _ledger(folder: Path, ledger: Ledger, manifest: dict[str, Any]) -> Iterator[Finding]:
    """The ledger that ships: entries named by their bytes, heads as the site and every footer print them."""
    entries, heads = ledger.entries(), ledger.heads()
    for path in sorted(ledger.folder.glob("*.json")):
        if hashlib.sha256(path.read_bytes()).hexdigest() != path.stem:
            yield found(f"artifacts/ledger/{path.name}", "an entry is not what its name says", "ledger")
        elif path.stem not in entries:
            yield found(f"artifacts/ledger/{path.name}", "is no ledger entry", "ledger")
    missing = sorted({parent for entry in entries.values() for parent in entry.parents} - set(entries))
    yield from (
        found(f"ledger {parent[:12]}", "an entry others descend from is missing", "ledger")
        for parent in missing
    )
    if manifest.get("heads") != heads:
        yield found("manifest.json", "its ledger heads are not those of the ledger that ships", "heads")
    for path in sorted(folder.rglob("*.html")):
        block = re.search(
            r'class="md-copyright k3-heads".*?</div>', path.read_text("utf-8", "replace"), re.DOTALL
        )
        printed = re.findall(r'<data class="k3-digest" value="([0-9a-f]+)"', block.group()) if block else []
        if sorted(printed) != heads:
            yield found(_relative(path, folder), "its footer does not print the ledger heads", "heads")


def _since(store: Store, manifest: dict[str, Any], seals: set[str], notes: list[str]) -> Iterator[Finding]:
    """What happened after the build, as far as the local ledger knows."""
    entries = store.ledger.entries()
    for head in manifest.get("heads") or ():
        if head not in entries:
            fix = "Its history was rewritten, or this store is another project's."
            yield found(
                f"ledger {str(head)[:12]}", "a head of this site is not part of today's ledger", "heads", fix
            )
    withdrawn = store.withdrawn()
    for seal in sorted(seals & set(withdrawn)):
        yield found(
            f"artifact {seal[:12]}",
            f"withdrawn since: {withdrawn[seal]}",
            "withdrawn",
            "Build the site again.",
        )
    newer = sorted(seals & set(store.state().superseded))
    notes += [f"artifact {seal[:12]} was superseded since" for seal in newer]


def _relative(path: Path, folder: Path) -> str:
    return path.relative_to(folder).as_posix()
