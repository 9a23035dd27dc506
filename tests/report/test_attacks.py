"""Attacks of an author who controls the whole site: manifest, search index and drawings are made to fit.

Each one is caught when the site is built again from a checkout. HEADS names those that the folder alone does
not give away, but does to a reader who noted a ledger head; NEVER those that no folder can tell.
"""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from small_site import SWEEP, fill, sweep_rows, write_site

from k3repro.report import Site, _audit, audit_site, build_site
from k3repro.report._figures import one_line, svg_of
from k3repro.report._files import tree_digests
from k3repro.report._markup import canonical_json, script_json
from k3repro.report._rebuild import _artifacts, differences
from k3repro.report._search import INDEX, index_of
from k3repro.store import Header, Store

pytestmark = pytest.mark.slow

PAGE = "wall-law.html"
PROSE = "A wave of the longest replies takes"
Attack = Callable[[Path, Path], None]


def project(root: Path) -> Path:
    """A checkout: artifacts, site, build."""
    store = Store(root / "artifacts")
    fill(store, measured=True)
    later = {"osl": 7, "wall_s": 1.0, "p99_s": 1.0, "n": 1, "answer": None}
    store.transcribe("later", "note", {"document": "a note"}, SWEEP, [later])
    (root / "site").mkdir(parents=True)
    build_site(write_site(root / "site"), Store(root / "artifacts"))
    return root


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return project(tmp_path_factory.mktemp("attacks") / "honest")


def forge(folder: Path) -> None:
    """Make index, manifest and policies fit what was changed."""
    (folder / INDEX).write_text(index_of(folder), "utf-8")
    manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    manifest["files"] = tree_digests(folder, skip=["manifest.json"])
    (folder / "manifest.json").write_text(canonical_json(manifest) + "\n", "utf-8")


def swap(old: str, new: str, count: int = 1) -> Attack:
    def attack(folder: Path, checkout: Path) -> None:
        page = folder / PAGE
        text = page.read_text("utf-8")
        assert old in text, old
        page.write_text(text.replace(old, new, count), "utf-8")

    return attack


def prose(text: str) -> Attack:
    """Put a sentence in front of one of the page's own."""
    return swap(PROSE, f"{text} {PROSE}")


def values_change_places(folder: Path, checkout: Path) -> None:
    page = folder / PAGE
    text = page.read_text("utf-8")
    found = re.findall(r"<data class=\"k3-value\".*?</data>", text)
    first, second = found[-2:]
    page.write_text(text.replace(first, "@@").replace(second, first).replace("@@", second), "utf-8")


def values_touch(folder: Path, checkout: Path) -> None:
    page = folder / PAGE
    text = page.read_text("utf-8")
    value = re.search(r"<data class=\"k3-value\".*?</data>", text)
    assert value
    page.write_text(
        text.replace(value.group(), value.group() + value.group().replace(' id="', ' id="x'), 1), "utf-8"
    )


def badge_in_prose(folder: Path, checkout: Path) -> None:
    """The page of the journey shows only the twin; a badge in its text says so, until it is changed."""
    page = folder / "journey.html"
    text = page.read_text("utf-8")
    mark = '<p>All of it is <span class="k3-tier" data-tier="measured">measured</span>.</p>'
    page.write_text(text.replace("</article>", f"{mark}</article>", 1), "utf-8")


def chart(change: Callable[[dict], None]) -> Attack:
    def attack(folder: Path, checkout: Path) -> None:
        page = folder / PAGE
        text = page.read_text("utf-8")
        match = re.search(
            r'<div class="k3-static">.*?</div>(</div>\n?<script[^>]*k3-spec">)(.*?)(</script>)',
            text,
            re.DOTALL,
        )
        assert match
        spec = json.loads(match.group(2))
        change(spec)
        drawn = f'<div class="k3-static">{one_line(svg_of(spec))}</div>'
        new = drawn + match.group(1) + script_json(spec) + match.group(3)
        page.write_text(text[: match.start()] + new + text[match.end() :], "utf-8")

    return attack


def axis(**more: object) -> Callable[[dict], None]:
    return lambda spec: spec["encoding"]["y"].update(more)


def layered_filter(spec: dict) -> None:
    layer = {name: spec.pop(name) for name in ("mark", "encoding")}
    spec["layer"] = [{**layer, "transform": [{"filter": {"field": "osl", "equal": 16}}]}]


def built_anew(change: Callable[[Path, Store], None]) -> Attack:
    """The attacker's own build, with the project's tools, after a change to what it is built from."""

    def attack(folder: Path, checkout: Path) -> None:
        root = folder.parent / "attacker"
        shutil.copytree(checkout / "artifacts", root / "artifacts")
        (root / "site").mkdir()
        site = write_site(root / "site")
        change(root, Store(root / "artifacts"))
        shutil.rmtree(folder)
        shutil.copytree(build_site(site, Store(root / "artifacts")).site, folder)

    return attack


def query(name: str, old: str, new: str) -> Attack:
    def change(root: Path, store: Store) -> None:
        path = root / "site" / "queries" / f"{name}.sql"
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))

    return built_anew(change)


def other_unit(folder: Path, checkout: Path) -> None:
    """In the query's file, the pages and the rows, by hand: the build refuses it."""
    for path in (item for item in folder.rglob("*") if item.suffix in (".html", ".sql", ".js")):
        text = path.read_text("utf-8")
        path.write_text(
            text.replace('label = "Wall time", unit = "s"', 'label = "Wall time", unit = "ms"'), "utf-8"
        )


def scripts_gone(folder: Path, checkout: Path) -> None:
    page = folder / PAGE
    page.write_text(re.sub(r'<script src="[^"]*k3\.js"></script>', "", page.read_text("utf-8")), "utf-8")


def extra_page(folder: Path, checkout: Path) -> None:
    (folder / "extra.html").write_text((folder / "index.html").read_text("utf-8"), "utf-8")


def sealed_again(root: Path, store: Store) -> None:
    """The run on a GPU, with other serve facts, in a ledger that never saw the first one."""
    serve = {"id": "s2", "evidence": [{"kind": kind, "value": "99"} for kind in ("build_info", "metrics")]}
    old = store.artifacts("sweep", "cluster")[0]
    header = Header("sweep", "cluster", "probe", "tests.report:fill", serve=serve, clock="wall")
    entry = next(e for e in store.ledger.entries().values() if e.seal == old.seal)
    for path in store.ledger.folder.glob("*.json"):
        path.unlink()
    old.path.unlink()
    assert entry and dataclasses.is_dataclass(header)
    shutil.rmtree(root / "artifacts")
    again = Store(root / "artifacts")
    fill(again)
    with again.begin(header, SWEEP) as run:
        run.commit("all", {"waves": sweep_rows()})
        run.seal()


def rolled_back(root: Path, store: Store) -> None:
    for head in store.heads():
        (store.ledger.folder / f"{head}.json").unlink()


def made_anew(root: Path, store: Store) -> None:
    shutil.rmtree(root / "artifacts")
    fill(Store(root / "artifacts"), measured=True)


def renamed(folder: Path) -> None:
    """The page's heading, title and every menu: consistent, but not what its template says."""
    for path in folder.rglob("*.html"):
        path.write_text(path.read_text("utf-8").replace("The wall law", "The measured wall law"), "utf-8")


def tables_change_places(folder: Path) -> None:
    page = folder / PAGE
    text = page.read_text("utf-8")
    first, second = re.findall(
        r'<div class="k3-table".*?</table>.*?</div></div>|<div class="k3-table".*?</div>(?=\n)',
        text,
        re.DOTALL,
    )[:2]
    page.write_text(text.replace(first, "@@").replace(second, first).replace("@@", second), "utf-8")


def left_out(folder: Path) -> None:
    """A page, its data and every way to it."""
    (folder / "long.html").unlink()
    (folder / "behind" / "long.js").unlink(missing_ok=True)
    for name in ("queries/long.sql", "data/long.csv", "data/long.parquet"):
        (folder / name).unlink()
    for path in folder.rglob("*.html"):
        text = re.sub(
            r'<li class="md-[^>]*>\s*<a href="[^"]*long\.html".*?</li>',
            "",
            path.read_text("utf-8"),
            flags=re.DOTALL,
        )
        path.write_text(re.sub(r'<a href="[^"]*long\.html".*?</a>', "", text, flags=re.DOTALL), "utf-8")


def not_a_number(folder: Path) -> None:
    page = folder / PAGE
    page.write_text(re.sub(r'("wall_s":)[\d.]+', r"\1NaN", page.read_text("utf-8"), count=1), "utf-8")


def linked(folder: Path) -> None:
    (folder / "journey.html").rename(folder / "other.html")
    (folder / "journey.html").symlink_to("other.html")


ATTACKS: dict[str, Attack] = {
    "two bound values change places": values_change_places,
    "two bound values read as one": values_touch,
    "letters read as digits": prose("It takes lOO ms."),
    "order of magnitude": prose(
        "That is an order of magnitude less, a score of waves, and one per cent of it."
    ),
    "a score": prose("It takes a score of waves."),
    "one per cent": prose("It is one per cent."),
    "minus before a value": swap(f"{PROSE} ", f"{PROSE} minus "),
    "kilo after a value": swap("</data> on the twin", "</data> kilo on the twin"),
    "a tier badge in prose": badge_in_prose,
    "a hidden table": swap('<table class="k3-grid"', '<table hidden class="k3-grid"'),
    "a hidden figure": swap('<figure class="k3-figure"', '<figure hidden class="k3-figure"'),
    "a caveat replaced": prose("Nothing here is simulated."),
    "a chart's filter": chart(layered_filter),
    "a chart's field": chart(axis(field="p99_s")),
    "an axis turned round": chart(axis(scale={"reverse": True})),
    "an axis cut": chart(axis(scale={"domain": [1, 2], "clamp": True})),
    "an axis title": chart(axis(title="Wall time per GPU, measured on hardware (s)")),
    "a query leaves rows out": query("sweep", "ORDER BY osl", "AND osl <> 16 ORDER BY osl"),
    "a column in another unit": other_unit,
    "scripts removed": scripts_gone,
    "an extra page": extra_page,
    "serve facts sealed again": built_anew(sealed_again),
    "the newest entry rolled back": built_anew(rolled_back),
    "a ledger made anew": built_anew(made_anew),
    "a value in data-linenos": prose('<span class="k3-x" data-linenos="74.3 ms">x</span>'),
    "a sentence at the foot": swap(
        "Every number on this page", "All of it was measured. Every number on this page"
    ),
    "another name in the menu": swap("A journey", "A measured journey"),
    "another name in the menu, everywhere": lambda folder, checkout: renamed(folder),
    "a link's title": swap('<a class="headerlink"', '<a title="measured on hardware" class="headerlink"'),
    "a link that leads elsewhere": swap(f"<p>{PROSE}", f'<p><a href="index.html"></a>{PROSE}'),
    "a caveat with a class that hides it": swap(f"<p>{PROSE}", f'<p class="k3-more">{PROSE}'),
    "a caveat struck out": swap(PROSE, f"<del>{PROSE}</del>"),
    "text turned round": prose("\u202e.erawdrah no derusaem\u202c"),
    "a number as entities": prose("It takes &#x37;&#52; ms."),
    "text in a drawing of its own": prose('<svg viewBox="0 0 9 9"><text>measured</text></svg>'),
    "HTML in a drawing": prose("<svg><foreignObject><p>measured</p></foreignObject></svg>"),
    "a picture as data": prose('<img alt="" src="data:image/png;base64,AAAA">'),
    "a style of its own": prose("<style>p::before { content: '74 ms' }</style>"),
    "a list that counts": prose('</p><ol start="74"><li>ms</li></ol><p>'),
    "another description": swap('content="How long a wave takes."', 'content="Measured on hardware."'),
    "another figure's caption": swap(
        "Wall time grows with reply length.", "Wall time as measured on hardware."
    ),
    "tables change places": lambda folder, checkout: tables_change_places(folder),
    "a page left out": lambda folder, checkout: left_out(folder),
    "a page that is a link": lambda folder, checkout: linked(folder),
    "a constant behind a column": query("sweep", "osl, wall_s,", "osl, wall_s * 0 + 3 AS wall_s,"),
    "a chart that is not a number": lambda folder, checkout: not_a_number(folder),
    "another character set": swap('<meta charset="utf-8">', '<meta charset="iso-2022-jp">'),
}
HEADS = {"serve facts sealed again", "the newest entry rolled back", "a ledger made anew"}
"""Found alone only by who noted a head of the ledger: the folder is what an honest one would be."""
AUTHOR = {"two bound values change places", "a caveat replaced", "a query leaves rows out"}
"""Found alone because k3repro ships its pages and queries; of other ones nothing contradicts the author."""


@pytest.mark.parametrize("name", sorted(ATTACKS))
def test_an_attack(checkout: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_audit, "installed_site", lambda: Site(checkout / "site"))
    honest = checkout / "site" / "build"
    heads = Store(honest / "artifacts").heads()
    folder = Path(shutil.copytree(honest, tmp_path / "site"))
    ATTACKS[name](folder, checkout)
    forge(folder)
    # --rebuild gives the honest bytes again, whatever was done to the folder
    rebuilt = [*_artifacts(folder / "artifacts", checkout / "artifacts"), *differences(folder, honest)]
    assert rebuilt, "not found by --rebuild"
    alone = audit_site(folder, alone=True).findings
    noted = audit_site(folder, alone=True, known_heads=heads).findings
    assert bool(alone) == (name not in HEADS), [str(finding) for finding in alone]
    assert noted
    if name in AUTHOR:
        assert {finding.code for finding in alone} == {"shipped"}, [str(finding) for finding in alone]


def test_the_forger_alone_leaves_no_trace(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_audit, "installed_site", lambda: Site(checkout / "site"))
    folder = Path(shutil.copytree(checkout / "site" / "build", tmp_path / "site"))
    forge(folder)
    assert [str(finding) for finding in audit_site(folder, alone=True).findings] == []
