"""A build that takes pages over from the last gives the bytes of a build from nothing, whatever changed."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from small_site import SWEEP, fill, sweep_rows, write_site

from k3repro.report import Site, build_site
from k3repro.report._files import tree_digests
from k3repro.report._kept import KEPT, Kept
from k3repro.store import Header, Store

Edit = Callable[[Site, Store, random.Random], None]
GLOSSARY = '[[term]]\nname = "wave"\nsays = "Requests sent together."\n'


def _replace(path: Path, old: str, new: str) -> None:
    text = path.read_text("utf-8")
    path.write_text(text.replace(old, new, 1) if old in text else text + new, "utf-8")


def sentence(site: Site, _: Store, dice: random.Random) -> None:
    page = dice.choice(sorted(site.pages.glob("*.md")))
    page.write_text(f"{page.read_text('utf-8')}\nA sentence about {dice.choice('abcdefgh') * 5}.\n", "utf-8")


def title(site: Site, _: Store, dice: random.Random) -> None:
    _replace(site.pages / "journey.md", "title: ", f"title: {dice.choice('ABCDEFGH')} ")


def query(site: Site, _: Store, dice: random.Random) -> None:
    _replace(site.queries / "sweep.sql", 'label = "Reply', f'label = "{dice.choice("ABCDEFGH")} Reply')


def figure(site: Site, _: Store, dice: random.Random) -> None:
    _replace(site.figures / "wall.py", "mark_line(point=True", f"mark_line(strokeWidth={dice.randint(1, 9)}")


def term(site: Site, _: Store, dice: random.Random) -> None:
    (site.root / "glossary.toml").write_text(
        GLOSSARY.replace("sent", f"{dice.choice('ABCDEFGH')} sent"), "utf-8"
    )


def page(site: Site, _: Store, dice: random.Random) -> None:
    name = site.pages / f"more-{dice.choice('abcd')}.md"
    if name.is_file():
        name.unlink()
        return
    name.write_text('---\ntitle: More\n---\n\n# More\n\n{{ table("pair", caption="Again.") }}\n', "utf-8")


def untitled(site: Site, _: Store, dice: random.Random) -> None:
    (site.pages / "untitled.md").write_text(
        f"# Named by its {dice.choice('abcdefgh') * 4}\n\nText.\n", "utf-8"
    )


def artifact(_: Site, store: Store, dice: random.Random) -> None:
    rows = [{**row, "wall_s": row["wall_s"] + dice.random()} for row in sweep_rows()]
    old = store.find("sweep@twin:mi325x")
    header = Header(
        "sweep", "twin:mi325x", "probe", "tests.report:fill", parameters={"seed": dice.randint(0, 10**9)},
        serve={"evidence": [], "version": "k3repro-twin"}, clock="virtual",
    )  # fmt: skip
    run = store.begin(header, SWEEP)
    run.commit("all", {"waves": rows})
    run.seal(verdict={"ok": True, "reasons": []})
    store.supersede(old.seal, store.find("sweep@twin:mi325x").seal, "another seed")


OF_ALL: tuple[Edit, ...] = (term, artifact)  # every page is made again
OF_SOME: tuple[Edit, ...] = (sentence, title, query, figure, page, untitled)


@pytest.fixture
def mine(tmp_path: Path) -> tuple[Site, Store]:
    """A site and a store of its own, both built once."""
    store = Store(tmp_path / "artifacts")
    fill(store)
    (tmp_path / "site").mkdir()
    site = write_site(tmp_path / "site")
    build_site(site, store)
    return site, store


@pytest.mark.parametrize("seed", [1, *(pytest.param(n, marks=pytest.mark.nightly) for n in range(2, 12))])
def test_any_edits_give_the_bytes_of_a_build_from_nothing(
    mine: tuple[Site, Store], tmp_path: Path, seed: int
) -> None:
    site, store = mine
    dice = random.Random(seed)
    for edit in (*dice.sample(OF_ALL, len(OF_ALL)), *dice.sample(OF_SOME, len(OF_SOME))):
        edit(site, store, dice)
        build_site(site, store)
    whole = Site(site.root, tmp_path / "whole")
    assert tree_digests(site.build) == tree_digests(build_site(whole, store).site)


def test_one_sentence_makes_one_page(mine: tuple[Site, Store], monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    put = Kept.put

    def noted(self: Kept, kind: str, *rest: object, **named: object) -> object:
        made.append(kind)
        return put(self, kind, *rest, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(Kept, "put", noted)
    site, store = mine
    sentence(site, store, random.Random(1))
    build_site(site, store)
    assert sorted(made) == ["checked", "entries", "markdown", "page"]


def test_the_folder_stays_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was not used for longest goes first."""
    monkeypatch.setattr("k3repro.report._kept.MOST_BYTES", 2_500)
    kept = Kept()
    with kept.open(tmp_path):
        for age, name in enumerate("abc"):
            kept.put("page", name, name * 1000)
            (path,) = {*tmp_path.glob("*/*")} - {
                path for path in tmp_path.glob("*/*") if path.stat().st_mtime < 100
            }
            os.utime(path, (age, age))
    with kept.open(tmp_path):
        assert [kept.find("page", name) for name in "abc"] == [None, "b" * 1000, "c" * 1000]


def test_a_torn_value_is_made_again(mine: tuple[Site, Store]) -> None:
    site, store = mine
    whole = tree_digests(site.build)
    for number, path in enumerate(sorted((site.generated / "kept").glob("*/*"))):
        path.write_bytes(path.read_bytes()[: number % 50])
    assert tree_digests(build_site(site, store, force=True).site) == whole


def test_an_audit_takes_nothing_over(mine: tuple[Site, Store]) -> None:
    """What a builder kept says that a page is in order; who audits does not ask it."""
    assert KEPT.folder is None
    with KEPT.open(mine[0].generated / "kept"):
        KEPT.put("checked", ["any"], "in order")
    assert KEPT.find("checked", ["any"]) is None
