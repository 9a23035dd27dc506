"""`audit site DIR --rebuild`: built again from the artifacts in DIR and a trusted checkout, byte for byte.

Pages, queries, figures, assets and code are the checkout's; only artifacts and ledger come from DIR, and they
must be the checkout's too. Artifacts are read through the store's locked-down process.
"""

from __future__ import annotations

import difflib
import html
import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from k3repro.errors import K3Error
from k3repro.report._build import make_tree, sources_of, write_manifest
from k3repro.report._console import CONSOLE
from k3repro.report._files import tree_digests
from k3repro.report._finding import Finding, found
from k3repro.report._inputs import inputs_of
from k3repro.report._kept import DRAWING, KEPT
from k3repro.report._site import Site
from k3repro.report._sources import Queryable
from k3repro.store import Ledger, Store, commit_of

__all__ = ["differences", "rebuild"]

_MOST = 4  # places of one file that are shown
_WIDEST = 60
_TOKEN = re.compile(r"<[^>]*>|[^<\s]+")
_ATTRIBUTE = re.compile(r'([\w:-]+)="([^"]*)"')
_FIX = "Trust what the checkout gives, or ask whoever built the site."


def rebuild(folder: Path, checkout: Path | None, catalog: Queryable, notes: list[str]) -> Iterator[Finding]:
    """Every file of `folder` that the checkout does not give again.

    Raises:
        InputError: `checkout` (default: the one of the working directory) holds no site.
    """
    trusted = Site.find(checkout)
    notes += _commits(folder, trusted)
    yield from _artifacts(folder / "artifacts", trusted.root.parent / "artifacts")
    with tempfile.TemporaryDirectory(prefix="k3repro-rebuild-") as work:
        site = Site(trusted.root, Path(work))
        try:
            with KEPT.open(trusted.generated / "kept", only=DRAWING):
                staging = _made(site, Store(folder / "artifacts"), catalog, sql=_has_console(folder))
        except K3Error as error:
            yield found(error.where or "site", f"cannot be built again: {error.what}", "rebuild", error.fix)
            return
        yield from differences(folder, staging)


def _made(site: Site, store: Store, catalog: Queryable, *, sql: bool) -> Path:
    staging, _ = make_tree(site, store, sources_of(site, store, catalog), sql=sql, say=lambda line: None)
    write_manifest(site, staging, inputs_of(site, store, sql=sql).whole, store.heads())
    return staging


def _has_console(folder: Path) -> bool:
    return (folder / CONSOLE).with_suffix(".html").is_file()


def _commits(folder: Path, trusted: Site) -> Iterator[str]:
    """What a reader must know about the checkout before believing a difference."""
    try:
        named = json.loads((folder / "manifest.json").read_text("utf-8"))["commit"]
        wanted, dirty = str(named["id"]), bool(named["dirty"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        wanted, dirty = "", False
    here = commit_of(trusted.root)
    if not wanted or not here["id"]:
        yield "no commit is known on one side: the checkout is taken as it is"
    elif wanted != here["id"]:
        yield (
            f"the site names commit {wanted[:12]}, the checkout is at {here['id'][:12]}:"
            " differences may be later changes"
        )
    if dirty or here["dirty"]:
        yield f"uncommitted changes {'when the site was built' if dirty else 'in the checkout'}"


def _artifacts(shipped: Path, trusted: Path) -> Iterator[Finding]:
    """Ledger and artifacts that the checkout does not hold with the same bytes."""
    if not Ledger(trusted / "ledger").entries():
        yield found(
            "artifacts", f"{trusted} has no ledger to compare with", "rebuild", "Check out artifacts/."
        )
        return
    mine, theirs = tree_digests(shipped), tree_digests(trusted)
    for name in sorted(mine):
        if name not in theirs:
            yield found(f"artifacts/{name}", "is not in the checkout", "rebuild", _FIX)
        elif mine[name] != theirs[name]:
            yield found(f"artifacts/{name}", "is not what the checkout holds", "rebuild", _FIX)
    for name in sorted(theirs):
        if name.startswith("ledger/") and name.endswith(".json") and name not in mine:
            yield found(
                f"artifacts/{name}", "is in the checkout's ledger, not in the site's", "rebuild", _FIX
            )


def differences(folder: Path, again: Path) -> Iterator[Finding]:
    """Files that are missing, too many, or other; for texts the places where they part."""
    mine, theirs = tree_digests(folder), tree_digests(again)
    for name in sorted(mine.keys() | theirs.keys()):
        if mine.get(name) == theirs.get(name):
            continue
        if name not in theirs:
            yield found(name, "is not part of what the checkout gives", "rebuild", _FIX)
        elif name not in mine:
            yield found(name, "is missing", "rebuild", _FIX)
        elif name == "manifest.json":
            yield from _manifests(folder / name, again / name)
        else:
            for what in _places(folder / name, again / name):
                yield found(name, what, "rebuild", _FIX)


def _manifests(mine: Path, theirs: Path) -> Iterator[Finding]:
    """Keys of the manifest that differ; its digests of files are those of files found before, or forged."""
    left, right = (_json(path) for path in (mine, theirs))
    for key in sorted(left.keys() | right.keys()):
        if key == "files":
            changed = {
                name for name in {*left["files"], *right["files"]}
                if left["files"].get(name) != right["files"].get(name)
            } if isinstance(left.get("files"), dict) else {"all"}  # fmt: skip
            if changed:
                what = f"files: other digests of {', '.join(sorted(changed)[:_MOST])}"
                yield found("manifest.json", what, "rebuild", _FIX)
        elif left.get(key) != right.get(key):
            what = f"{key} is {_short(left.get(key))}, the checkout gives {_short(right.get(key))}"
            yield found("manifest.json", what, "rebuild", "Same commit, same tools, same machine's Python?")
    if left == right:
        yield found("manifest.json", "is written in another way", "rebuild", _FIX)


def _json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _places(mine: Path, theirs: Path) -> Iterator[str]:
    """Where two files part: words and attributes of texts; nothing more of other files."""
    try:
        left, right = (path.read_bytes().decode("utf-8") for path in (mine, theirs))
    except UnicodeDecodeError:
        yield "has other bytes"
        return
    ours, others = _TOKEN.findall(left), _TOKEN.findall(right)
    if ours == others:
        yield "differs in white space only"
        return
    shown = 0
    for tag, low, high, lower, higher in _opcodes(ours, others):
        if tag == "equal":
            continue
        shown += 1
        if shown > _MOST:
            yield "and more"
            return
        yield _said(ours[low:high], others[lower:higher])


def _opcodes(left: list[str], right: list[str]) -> Iterator[tuple[str, int, int, int, int]]:
    """difflib over the middle that is left when equal beginnings and ends are taken off: texts are long."""
    low = next(
        (i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right))
    )
    most = min(len(left), len(right)) - low
    end = next((i for i in range(most) if left[-1 - i] != right[-1 - i]), most)
    middle = left[low : len(left) - end], right[low : len(right) - end]
    if max(map(len, middle)) > 5000:  # other pages altogether
        yield "replace", low, low + 1, low, low + 1
        return
    for tag, a, b, c, d in difflib.SequenceMatcher(None, *middle, autojunk=False).get_opcodes():
        yield tag, a + low, b + low, c + low, d + low


def _said(ours: list[str], others: list[str]) -> str:
    if len(ours) == len(others) == 1 and ours[0].startswith("<") and others[0].startswith("<"):
        left, right = dict(_ATTRIBUTE.findall(ours[0])), dict(_ATTRIBUTE.findall(others[0]))
        for name in sorted(left.keys() | right.keys()):
            if left.get(name) != right.get(name):
                element = ours[0][1:].partition(" ")[0]
                place = f"<{element} {name}>"
                return f"{place}: {_short(left.get(name))}, the checkout gives {_short(right.get(name))}"
    return f"{_short(' '.join(ours))}, the checkout gives {_short(' '.join(others))}"


def _short(value: object) -> str:
    text = "nothing" if value in (None, "") else repr(html.unescape(str(value)))
    return text if len(text) <= _WIDEST else f"{text[:_WIDEST]}…"
