"""`audit site --rebuild`: whatever a trusted checkout does not give again is found."""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from small_site import fill, write_site

from k3repro.report import Site, audit_site, build_site
from k3repro.report._rebuild import differences
from k3repro.store import Store

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with artifacts, a site and its build."""
    root = tmp_path_factory.mktemp("checkout")
    fill(Store(root / "artifacts"), measured=True)
    (root / "site").mkdir()
    build_site(write_site(root / "site"), Store(root / "artifacts"))
    return root


@pytest.fixture
def copy(checkout: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(checkout / "site" / "build", tmp_path / "copy"))


def rebuilt(folder: Path, checkout: Path) -> list[str]:
    audit = audit_site(folder, alone=True, rebuild=True, checkout=checkout)
    return [str(finding) for finding in audit.findings]


def test_an_honest_site_comes_out_the_same(copy: Path, checkout: Path) -> None:
    assert rebuilt(copy, checkout) == []
    assert sorted(path.name for path in (checkout / "site").iterdir() if path.name != "assets") == sorted(
        [".generated", "build", "figures", "mkdocs.yml", "pages", "queries", "vocabulary.toml"]
    )


def test_a_sentence_a_value_and_a_query_are_named_where_they_part(copy: Path, checkout: Path) -> None:
    page = copy / "wall-law.html"
    page.write_text(
        page.read_text()
        .replace("A wave of the longest", "Proof a wave of the longest")
        .replace(' data-tier="sim', ' data-tier="mea', 1)
    )
    sql = copy / "queries" / "sweep.sql"
    sql.write_text(sql.read_text().replace("ORDER BY", "AND osl < 1000 ORDER BY"))
    (copy / "more.html").write_text("<html></html>")
    (copy / "assets" / "k3" / "k3.js").unlink()
    found = "\n".join(rebuilt(copy, checkout))
    assert "'Proof a', the checkout gives 'A'" in found
    assert "data-tier>: 'meaulated', the checkout gives 'simulated'" in found
    assert "queries/sweep.sql" in found and "more.html" in found and "assets/k3/k3.js: is missing" in found


def test_artifacts_and_ledger_are_the_checkouts(copy: Path, checkout: Path) -> None:
    """A ledger made anew, with a site built over it, is consistent in itself."""
    other = checkout.with_name("forged")
    fill(Store(other / "artifacts"))
    (other / "site").mkdir()
    forged = build_site(write_site(other / "site"), Store(other / "artifacts")).site
    assert audit_site(forged, alone=True).ok
    found = "\n".join(rebuilt(forged, checkout))
    assert "is in the checkout's ledger, not in the site's" in found and "is not in the checkout" in found
    head = Store(copy / "artifacts").heads()[0]
    (copy / "artifacts" / "ledger" / f"{head}.json").unlink()
    assert any("not in the site's" in line for line in rebuilt(copy, checkout))


def test_the_commit_of_the_site_is_named(copy: Path, checkout: Path) -> None:
    manifest = json.loads((copy / "manifest.json").read_text())
    assert set(manifest["commit"]) == {"id", "dirty"}
    assert any("no commit is known" in note for note in audit_site(
        copy, alone=True, rebuild=True, checkout=checkout).notes)  # fmt: skip


KINDS: dict[str, tuple[str, bytes]] = {  # of a single edit: the files it is made in, and where in them
    "text": ("*.html", rb">[^<>]*\w[^<>]*<"),
    "query": ("queries/*.sql", rb".+"),
    "artifact": ("artifacts/**/*.duckdb", rb".+"),
    "attribute": ("*.html", rb'="[^"]+"'),
    "drawing": ("*.html", rb"<svg.*?</svg>"),
    "chart": ("*.html", rb'k3-spec">.*?</script>'),
    "ledger": ("artifacts/ledger/*.json", rb".+"),
    "any": ("**/*.*", rb".+"),
}


def edits(root: Path, count: int) -> Iterator[tuple[str, bytes]]:
    """Single edits of one byte at random places of a built site, kind after kind."""
    draw = random.Random(7)
    for number in range(count):
        files, pattern = list(KINDS.values())[number % len(KINDS)]
        places = [(path, m.span()) for path in sorted(root.glob(files)) for m in _matches(path, pattern)]
        path, (low, high) = draw.choice(places)
        data, at = path.read_bytes(), draw.randrange(low, high)
        new = bytes([draw.choice([b for b in b"0123456789abcxyz" if b != data[at]])])
        yield path.relative_to(root).as_posix(), data[:at] + new + data[at + 1 :]


def _matches(path: Path, pattern: bytes) -> Iterator[re.Match[bytes]]:
    if path.is_file() and 0 < path.stat().st_size < 2_000_000:
        yield from re.finditer(pattern, path.read_bytes(), re.DOTALL)


def test_two_hundred_single_edits_are_all_found(copy: Path, checkout: Path) -> None:
    """What is rebuilt does not depend on the edit: artifacts and ledger are compared before it is made."""
    again = checkout / "site" / "build"
    assert list(differences(copy, again)) == []
    for name, data in edits(again, 200):
        kept = (copy / name).read_bytes()
        (copy / name).write_bytes(data)
        assert [finding.where for finding in differences(copy, again)] == [name], name
        (copy / name).write_bytes(kept)


@pytest.mark.parametrize("count", [3, pytest.param(200, marks=[pytest.mark.nightly, pytest.mark.slow])])
def test_an_edit_is_found_through_the_whole_audit(copy: Path, checkout: Path, count: int) -> None:
    """Each edit alone, by `audit site --rebuild` itself; the site it leaves is the one before it."""
    for name, data in edits(checkout / "site" / "build", count):
        kept = (copy / name).read_bytes()
        (copy / name).write_bytes(data)
        assert rebuilt(copy, checkout), name
        (copy / name).write_bytes(kept)
    assert rebuilt(copy, checkout) == []


def test_a_site_found_by_its_folder(checkout: Path) -> None:
    assert Site.find(checkout).root == checkout / "site"
