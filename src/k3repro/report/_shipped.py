"""A site beside the pages, queries and lists of k3repro's own installation: what its author changed.

A sentence, a value's place and a query are the author's word: nothing in the folder contradicts another one.
Whoever audits has k3repro, and k3repro has them.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import resources
from itertools import zip_longest
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

import k3repro
from k3repro.errors import K3Error
from k3repro.report._finding import Finding, found
from k3repro.report._mkdocs import overrides
from k3repro.report._outline import Outline, Said
from k3repro.report._own import OwnPages
from k3repro.report._queries import parse_query
from k3repro.report._site import Site, study_files
from k3repro.report._sources import Sources
from k3repro.report._verify import Outcome

__all__ = ["installed_site", "own_pages", "unlike_shipped"]

_FIX = "Trust what k3repro's own page says, or build it again: --rebuild --checkout PATH."
_LISTS = ("exemptions.toml", "vocabulary.toml")
_NOTEBOOKS = "Notebooks behind this page:"


def installed_site() -> Site | None:
    """The pages and queries that came with this k3repro: its checkout's, else those that pip installed."""
    places = [
        Path(k3repro.__file__).parents[2],
        *(base / "share" / "k3repro" for base in (Path(sys.prefix), Path.home() / ".local")),
    ]
    return next((Site(place / "site") for place in places if (place / "site" / "mkdocs.yml").is_file()), None)


def own_pages(site: Site, sources: Sources) -> OwnPages | K3Error | None:
    """The pages of `site`, or why they cannot be made; None where the queries are another's."""
    if not _known(site, sources):
        return None
    try:
        return OwnPages.of(site, sources)
    except K3Error as error:
        return error


def unlike_shipped(
    folder: Path,
    site: Site,
    sources: Sources,
    own: OwnPages | K3Error | None,
    outcome: Outcome,
    notes: list[str],
) -> Iterator[Finding]:
    """Where a built site differs from the sources of `site`; silent but for a note where it is another's.

    own: what `own_pages` gave. outcome: what was found on the pages of the folder, beside these.
    """
    known = _known(site, sources)
    if own is None:
        notes.append(
            "the pages and queries of this site are none of k3repro's own: all it says is its author's"
        )
        return
    for name, path in known.items():
        if sources.queries[name].sql != parse_query(name, path.read_text("utf-8")).sql:
            yield found(f"queries/{name}.sql", "is not the query that k3repro ships", "shipped", _FIX)
    for name in _LISTS:
        mine, theirs = (_text(root / name) for root in (folder / "gate", site.root))
        if mine != theirs:
            yield found(f"gate/{name}", "is not the list that k3repro ships", "shipped", _FIX)
    yield from _sources(folder / "sources", site.root.parent)
    if isinstance(own, K3Error):
        what = f"k3repro's own pages cannot be made: {own.what}"
        yield found(own.where or "pages", what, "shipped", _FIX)
    else:
        yield from _pages(own, outcome)
    said = outcome.said
    yield from _frames(site, said)
    made = own.items if isinstance(own, OwnPages) else {}
    others = [
        *(f"queries/{name}.sql" for name in sorted(set(sources.queries) - set(known))),
        *(name for name in sorted(said) if name not in made and not name.startswith("notebooks/")),
    ]
    if others:
        more = f" and {len(others) - 3} more" if len(others) > 3 else ""
        notes.append(f"not k3repro's own, so its author's word: {', '.join(others[:3])}{more}")


def _known(site: Site, sources: Sources) -> dict[str, Path]:
    """The files of the queries that both have; none where they are less than half."""
    ours = study_files(site.queries, ".sql")
    known = {name: ours[name] for name in sorted(sources.queries) if name in ours}
    return known if len(known) * 2 >= len(sources.queries) else {}


def _text(path: Path) -> str:
    return path.read_text("utf-8", "replace") if path.is_file() else ""


def _sources(shipped: Path, repository: Path) -> Iterator[Finding]:
    """Quoted files of the repository, where it is at hand."""
    for path in sorted(shipped.rglob("*")) if shipped.is_dir() else []:
        name = path.relative_to(shipped)
        original = repository / name
        if path.is_file() and original.is_file() and _text(path) != _text(original):
            yield found(f"sources/{name.as_posix()}", "is not the file that k3repro ships", "shipped", _FIX)


def _pages(own: OwnPages, outcome: Outcome) -> Iterator[Finding]:
    """Findings about pages that are missing, or say something else than the templates."""
    heads = (page.headings for name, page in outcome.said.items() if name.startswith("notebooks/"))
    titles = [headings[0] for headings in heads if headings]
    for name in own.items:
        expected = outcome.unlike.get(name)
        if name not in outcome.said:
            yield found(name, "is missing, and k3repro ships it", "shipped", _FIX)
        elif isinstance(expected, str):
            what = f"k3repro's own page cannot be made from these artifacts: {expected}"
            yield found(name, what, "shipped")
        elif expected is not None and (what := _difference(outcome.said[name].outline, expected, titles)):
            yield found(name, what, "shipped", _FIX)


def _difference(mine: Outline, theirs: Outline, titles: Sequence[str]) -> str:
    """The first place where two outlines part, in words; empty where they do not.

    titles: of notebooks, whose links the build adds below a page.
    """
    added = mine[len(theirs) :]
    if mine[: len(theirs)] == theirs and (not added or _links(added, titles)):
        return ""
    for left, right in zip_longest(mine, theirs, fillvalue="nothing"):
        if left != right:
            return f"says {left[:80]!r}, k3repro's own page {right[:80]!r}"
    return ""


def _links(added: Outline, titles: Sequence[str]) -> bool:
    """Whether these are nothing but links to notebooks, by their titles."""
    return added[:2] == ("<p>", _NOTEBOOKS) and all(
        text in ("<a>", "·")
        or re.fullmatch(r"@href (?:\.\./)*notebooks/[\w.-]+\.html", text)
        or any(text.startswith(title) for title in titles)
        for text in added[2:]
    )


def _frames(site: Site, said: Mapping[str, Said]) -> Iterator[Finding]:
    """Menus, heads and feet say titles and headings of pages, and what theme and settings say; no more."""
    config = yaml.safe_load((site.root / "mkdocs.yml").read_text("utf-8"))
    fixed = {*_strings(config), *_theme_says(), *_own_parts(overrides(site).values())}
    titles = {page.headings[0] for page in said.values() if page.headings}
    # runs of one notebook on several targets share its heading; menus tell them apart by the stage
    titles |= {
        f"{page.headings[0]}: {name.rsplit('/', 1)[-1].removesuffix('.html')}"
        for name, page in said.items()
        if page.headings and name.startswith("notebooks/")
    }
    known = fixed | titles | {f"{title} - {config['site_name']}" for title in titles}
    known |= {f"{way}: {title}" for title in titles for way in ("Next", "Previous")}
    for name, page in said.items():
        for text in sorted(page.frame - known - set(page.headings)):
            what = f"says {text[:80]!r} around its article, which is neither title nor menu"
            yield found(name, what, "shipped", _FIX)


def _strings(value: Any) -> Iterator[str]:
    """Every text of some settings, keys included."""
    if isinstance(value, str):
        yield " ".join(value.split())
    elif isinstance(value, Mapping):
        yield from (text for pair in value.items() for item in pair for text in _strings(item))
    elif isinstance(value, list):
        yield from (text for item in value for text in _strings(item))


def _theme_says() -> Iterator[str]:
    """The texts of the theme, in English, and the name of its logo."""
    path = resources.files("material").joinpath("templates/partials/languages/en.html")
    yield from re.findall(r'": "([^"]+)"', path.read_text("utf-8"))
    yield "logo"


def _own_parts(templates: Iterable[str]) -> Iterator[str]:
    """Texts and labels in our and the site's own parts of the theme."""
    for template in templates:
        text = re.sub(r"\{[{%].*?[%}]\}", "<>", template, flags=re.DOTALL)
        yield from (" ".join(piece.split()) for piece in re.split(r"<[^>]*>", text))
        yield from re.findall(r'aria-label="([^"]+)"', text)
