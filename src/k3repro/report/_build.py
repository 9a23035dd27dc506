"""`site build`: templates and artifacts in, a verified static site out, swapped in only when every check
passed.
"""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from k3repro.errors import GateFailed
from k3repro.report import _files, _mkdocs
from k3repro.report._allowlist import load_grammar
from k3repro.report._behind import queries_in
from k3repro.report._console import CONSOLE, console_page
from k3repro.report._engine import engine_files
from k3repro.report._evidence import vouched
from k3repro.report._figures import figure_file
from k3repro.report._files import file_sha256
from k3repro.report._glossary import load_glossary, mark_terms
from k3repro.report._inputs import inputs_of
from k3repro.report._kept import KEPT
from k3repro.report._markup import canonical_json, sha256, slug
from k3repro.report._notebooks import notebook_page
from k3repro.report._page_per_row import instances
from k3repro.report._pages import Page, Shipped, csv_of, render_page
from k3repro.report._parquet import parquet_of
from k3repro.report._queries import load_queries
from k3repro.report._search import INDEX, index_of
from k3repro.report._site import Site
from k3repro.report._sources import Later, Queryable, Sources
from k3repro.report._theme import THEME, theme_css, tokens_of
from k3repro.report._withdrawn import check_withdrawn, withdrawn_items
from k3repro.store import SIGNERS, Catalog, Store, commit_of

__all__ = ["BuildReport", "build_site", "make_tree", "sources_of", "write_manifest"]


@dataclass(frozen=True, slots=True)
class BuildReport:
    """What a build did: where, how much, how long, whether anything had changed."""

    site: Path
    pages: int
    values: int
    artifacts: int
    seconds: float
    skipped: bool

    def as_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) if name != "site" else str(self.site) for name in self.__slots__}


def build_site(
    site: Site,
    store: Store,
    *,
    force: bool = False,
    sql: bool = False,
    say: Callable[[str], None] = lambda line: None,
) -> BuildReport:
    """Build and verify `site/build`.

    sql: add a page that runs SQL over every artifact, and the engine it needs.

    Raises:
        GateFailed: a check found something; the last build stays, the refused one is `.generated/refused`.
        InputError: a template, query or figure is wrong.
    """
    started = time.perf_counter()
    inputs = inputs_of(site, store, sql=sql)
    if not force and (counts := _current(site, inputs.whole)):
        return BuildReport(site.build, **counts, seconds=time.perf_counter() - started, skipped=True)
    with KEPT.open(site.generated / "kept"):
        sources = sources_of(site, store, Later(store.catalog), inputs.shared)
        staging, shipped = make_tree(site, store, sources, sql=sql, say=say)
        checked = _shipped_sources(store, sources, shipped)
        say("verifying the built pages")
        counts = _verify(site, staging, checked)
    write_manifest(site, staging, inputs.whole, store.heads())
    _swap(staging, site.build)
    _files.write_changed(site.generated / "counts.json", canonical_json(counts))
    return BuildReport(site.build, **counts, seconds=time.perf_counter() - started, skipped=False)


def make_tree(
    site: Site, store: Store, sources: Sources, *, sql: bool, say: Callable[[str], None]
) -> tuple[Path, set[str]]:
    """Everything of a site but its manifest, unverified: the folder, and the seals of what it ships."""
    say("rendering pages")
    shipped = Shipped()
    pages, notebooks = _render(site, sources, shipped)
    docs: dict[str, bytes | str] = {**pages, **_mkdocs.asset_files(site)}
    if sql:
        shipped.seals.update(sources.artifacts)
        pages[CONSOLE] = docs[CONSOLE] = console_page(sources)
        docs |= engine_files()
    _files.sync_tree(site.generated / "docs", docs)
    heads = store.heads()
    config = _mkdocs.configuration(site, list(pages), notebooks, heads)
    _files.write_changed(site.generated / "mkdocs.yml", config)
    _files.sync_tree(site.generated / _mkdocs.OVERRIDES, _mkdocs.overrides(site))
    say("running mkdocs")
    staging, beside = site.generated / "staging", site.generated / "beside"
    for folder in (staging, beside):
        shutil.rmtree(folder, ignore_errors=True)
    keys = _mkdocs.page_keys(pages, config, sources.identity)
    html = {name: found for name, key in keys.items() if (found := KEPT.find("page", key))}
    missing = [name for name in pages if name not in html]
    _mkdocs.run_mkdocs(site.generated, staging, missing, lambda: _ship(beside, site, store, sources, shipped))
    _clean(staging)
    terms = load_glossary(site.root, sources.grammar)
    for name in missing:
        text = (staging / _mkdocs.html_name(name)).read_text("utf-8")
        html[name] = KEPT.put("page", keys[name], mark_terms(_mkdocs.finish_html(text), terms))
    for name, text in html.items():
        _files.write_changed(staging / _mkdocs.html_name(name), text)
    tokens = sorted({token for text in html.values() for token in tokens_of(text)})
    style = KEPT.get("theme", [sources.identity, tokens], lambda: theme_css(frozenset(tokens)))
    _files.write_changed(staging / THEME, style)
    _files.write_changed(staging / INDEX, index_of(staging, sources.identity))
    _files.move_into(beside, staging)
    return staging, shipped.seals


def _current(site: Site, digest: str) -> dict[str, int] | None:
    """The counts of the present build when inputs and every built file are as they were."""
    try:
        manifest: dict[str, Any] = json.loads((site.build / "manifest.json").read_text("utf-8"))
        counts: dict[str, int] = json.loads((site.generated / "counts.json").read_text("utf-8"))
        same = manifest["inputs"] == digest
    except (OSError, ValueError, KeyError, TypeError):
        return None
    same = same and manifest["files"] == _files.tree_digests(site.build, skip=["manifest.json"])
    return counts if same and _sources_stand(site) else None


def _sources_stand(site: Site) -> bool:
    """Whether files of the repository that pages quote are still what they quote."""
    shipped = site.build / "sources"
    for path in sorted(shipped.rglob("*")) if shipped.is_dir() else []:
        original = site.root.parent / path.relative_to(shipped)
        if path.is_file() and original.is_file() and original.read_bytes() != path.read_bytes():
            return False
    return True


def sources_of(site: Site, store: Store, catalog: Queryable, shared: str = "") -> Sources:
    """The site's queries over a catalog, with what the ledger knows of the store's files.

    shared: the digest of all that pages share; without it nothing is taken from an earlier build.
    """
    entries = store.state().seals
    files = {
        artifact.seal: (_inside(store, artifact), int(entries[artifact.seal].body.get("bytes") or 0))
        for artifact in store.artifacts()
    }
    queries = load_queries(site.queries)
    check_withdrawn(site.root, store, queries)
    grammar = load_grammar(site.root)
    return Sources(catalog, queries, files, withdrawn_items(store), vouched(store), grammar, shared)


def _inside(store: Store, artifact: Any) -> str:
    """The path of an artifact's file in the site: as in the store, so that the ledger still fits."""
    return f"artifacts/{artifact.path.resolve().relative_to(store.root.resolve()).as_posix()}"


@dataclass(frozen=True, slots=True)
class _Job:
    """A page to render: what its text is made from, and how."""

    page: Page
    key: list[Any]
    make: Callable[[], tuple[str, str]]

    def done(self) -> tuple[str, str, Shipped]:
        """Title, Markdown and what it refers to, made now or by an earlier build from the same."""
        sources = self.page.sources
        now = partial(_digest_now, self.page.site, sources)

        def make() -> tuple[tuple[str, str, Shipped], list[str]]:
            (title, text), asked = sources.watched(self.make)
            return (title, text, self.page.shipped), [*self.page.read, *(f"query:{query}" for query in asked)]

        return KEPT.read("markdown", [sources.identity, *self.key], now, make)


def _jobs(site: Site, sources: Sources) -> Iterator[_Job]:
    for item in instances(site.templates(), sources):
        page = Page(item.name, site, sources, Shipped(), template=item.template, row=item.row)
        key = [item.name, item.template, item.text, dict(item.row or {})]
        yield _Job(page, key, partial(_untitled, page, item.text))
    for stage, path in site.notebooks().items():
        page = Page(f"notebooks/{slug(stage)}.md", site, sources, Shipped())
        key = [page.name, path.parent.name, path.name, file_sha256(path)]
        yield _Job(page, key, partial(notebook_page, path, page))


def _untitled(page: Page, text: str) -> tuple[str, str]:
    return "", render_page(page, text)


def _render(site: Site, sources: Sources, shipped: Shipped) -> tuple[dict[str, str], dict[str, str]]:
    """Pages by name, and titles of notebooks."""
    pages: dict[str, str] = {}
    titles: dict[str, str] = {}
    for job in _jobs(site, sources):
        title, pages[job.page.name], refers = job.done()
        shipped.join(refers)
        if title:
            titles[job.page.name] = title
    repeated = {title for title in titles.values() if list(titles.values()).count(title) > 1}
    for name, title in titles.items():
        if title in repeated:  # one notebook, several targets
            titles[name] = f"{title}: {name.rsplit('/', 1)[-1].removesuffix('.md')}"
    _link_notebooks(pages, titles)
    return pages, titles


def _digest_now(site: Site, sources: Sources, fact: str) -> str:
    """What a page was made from beside its own text, as it stands now: a query, a figure, a file, a page."""
    kind, _, name = fact.partition(":")
    match kind:
        case "query":
            return sources.queries[name].sha256 if name in sources.queries else ""
        case "page":
            return str(name in site.templates())
    path = figure_file(site.figures, name) if kind == "figure" else site.root.parent / name
    return file_sha256(path) if path.is_file() else ""


def _link_notebooks(pages: dict[str, str], titles: Mapping[str, str]) -> None:
    """Chapters name the notebooks that show the same queries, and notebooks their chapter."""
    asked = {name: queries_in(text) for name, text in pages.items()}
    ends: dict[str, list[str]] = {}
    chapters = [name for name in pages if name not in titles and asked[name]]
    for notebook in sorted(titles):
        shared = {name: len(asked[notebook] & asked[name]) for name in chapters}
        best = max(chapters, key=lambda name: (shared[name], -len(asked[name]), name), default="")
        if best and shared[best]:
            ends.setdefault(best, []).append(_link(best, notebook, titles[notebook]))
            ends[notebook] = [_link(notebook, best, _title(pages[best]))]
    for name, links in ends.items():
        said = "Chapter" if name in titles else "Notebooks behind this page"
        pages[name] = f"{pages[name].rstrip()}\n\n{said}: {' · '.join(links)}\n"


def _link(page: str, to: str, title: str) -> str:
    return f"[{title}]({'../' * page.count('/')}{to})"


def _title(text: str) -> str:
    """What the front matter of a page calls it."""
    found = re.search(r"(?m)^title: (.*)$", text)
    return found.group(1).strip().strip('"') if found else "chapter"


def _clean(staging: Path) -> None:
    """Take away what mkdocs writes for a server, and what depends on who builds."""
    for name in _mkdocs.UNWANTED:
        (staging / name).unlink(missing_ok=True)
    for name in _mkdocs.UNWANTED_FOLDERS:
        shutil.rmtree(staging / name, ignore_errors=True)
    for path in sorted(staging.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)


def _ship(staging: Path, site: Site, store: Store, sources: Sources, shipped: Shipped) -> None:
    """Everything an auditor needs: queries, rows, sources, cited artifacts with their inputs, the ledger."""
    for name in sorted(shipped.queries):
        _files.write_changed(staging / "queries" / f"{name}.sql", sources.queries[name].sql)
        _files.write_changed(staging / "data" / f"{name}.csv", csv_of(sources, name))
        _files.write_changed(staging / "data" / f"{name}.parquet", parquet_of(sources, name))
    for name, text in sorted(shipped.sources.items()):
        _files.write_changed(staging / "sources" / name, text)
    for name, text in sorted(shipped.behind.items()):
        _files.write_changed(staging / name, text)
    # Rows cite what their numbers come from; relations and verdicts on prints are no numbers.
    said = {"relation", "claims-audit"}
    shipped.seals.update(seal for seal, row in sources.artifacts.items() if row["name"] in said)
    sealed = {artifact.seal: artifact for artifact in store.artifacts(current=False)}
    for seal in sorted(_with_inputs(shipped.seals, store, set(sealed))):
        _files.copy_file(sealed[seal].path, staging / _inside(store, sealed[seal]))
    for path in sorted((store.root / "ledger").glob("*.json")):
        _files.copy_file(path, staging / "artifacts" / "ledger" / path.name)
    for path in (*sorted((store.root / "signatures").glob("*.txt")), store.root / SIGNERS):
        if path.is_file():
            _files.copy_file(path, staging / "artifacts" / path.relative_to(store.root))
    for name in ("exemptions.toml", "vocabulary.toml"):
        if (site.root / name).is_file():
            _files.copy_file(site.root / name, staging / "gate" / name)


def _shipped_sources(store: Store, sources: Sources, seals: set[str]) -> Sources:
    """Sources over just what ships, as an auditor will have it: a query must not lean on what it does not
    cite.
    """
    current = {artifact.seal: artifact for artifact in store.artifacts()}
    ship = _with_inputs(seals, store, set(current))
    if ship == set(current):
        return sources
    return dataclasses.replace(
        sources,
        catalog=Later(lambda: Catalog.of([current[seal] for seal in sorted(ship)])),
        identity=sha256(canonical_json([sources.identity, sorted(ship)])),
        _results={}, _artifacts=None, _claims=None, _made={}, _tiers={},
    )  # fmt: skip


def _with_inputs(seals: set[str], store: Store, among: set[str]) -> set[str]:
    """Seals with the inputs of their inputs, as the ledger has them, of those in `among`."""
    entries, found, open_ = store.state().seals, set[str](), list(seals)
    while open_:
        seal = open_.pop()
        if seal in among and seal not in found:
            found.add(seal)
            open_.extend(entries[seal].body.get("inputs", ()))
    return found


def _verify(site: Site, staging: Path, sources: Sources) -> dict[str, int]:
    from k3repro.report._verify import verify_tree

    outcome = verify_tree(staging, sources, templates=site.templates())
    if outcome.findings:
        refused = site.generated / "refused"
        _swap(staging, refused)
        first = outcome.findings[0]
        more = (
            f" ({len(outcome.findings) - 1} more: k3repro site build --json)"
            if len(outcome.findings) > 1
            else ""
        )
        raise GateFailed(
            f"{first.what}{more}",
            where=first.where,
            fix=first.fix,
            findings=[finding.as_dict() for finding in outcome.findings],
        )
    return {"pages": outcome.pages, "values": outcome.values, "artifacts": outcome.artifacts}


def write_manifest(site: Site, staging: Path, digest: str, heads: list[str]) -> None:
    """`manifest.json`: every file with its digest, the ledger heads, and the commit of the site's folder."""
    manifest = {
        "format": 2,
        "inputs": digest,
        "heads": heads,
        "commit": commit_of(site.root),
        "files": _files.tree_digests(staging, skip=["manifest.json"]),
    }
    _files.write_changed(staging / "manifest.json", canonical_json(manifest) + "\n")


def _swap(new: Path, target: Path) -> None:
    old = target.with_name(target.name + ".old")
    shutil.rmtree(old, ignore_errors=True)
    if target.exists():
        target.replace(old)
    new.replace(target)
    shutil.rmtree(old, ignore_errors=True)
