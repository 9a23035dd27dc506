"""`audit site`: a digit changed anywhere in a built site is found, from the folder alone."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from k3repro.errors import GateFailed, InputError
from k3repro.report import Site, audit_site, build_site
from k3repro.report._allowlist import load_grammar
from k3repro.report._files import tree_digests
from k3repro.store import Store

pytestmark = pytest.mark.slow


@pytest.fixture
def copy(built: Path, tmp_path: Path) -> Path:
    target = tmp_path / "copy"
    shutil.copytree(built, target)
    return target


def forge_manifest(folder: Path) -> None:
    """What a careful forger does: make the manifest fit."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text("utf-8"))
    manifest["files"] = tree_digests(folder, skip=["manifest.json"])
    path.write_text(json.dumps(manifest), "utf-8")


def edit(folder: Path, name: str, change: Callable[[str], str]) -> None:
    path = folder / name
    before = path.read_text("utf-8")
    after = change(before)
    assert after != before, "the test changed nothing"
    path.write_text(after, "utf-8")
    forge_manifest(folder)


def test_a_clean_site_passes_elsewhere_and_alone(copy: Path) -> None:
    audit = audit_site(copy)
    assert [str(finding) for finding in audit.findings] == []
    assert audit.values > 30 and audit.artifacts == 2


DIGIT = re.compile(r"(\d)(?=\D*$)")


def bump(text: str) -> str:
    """The last digit, plus one."""
    return DIGIT.sub(lambda match: str((int(match.group(1)) + 1) % 10), text, count=1)


PLACES = {
    "text of a value": r'(<data class="k3-value"[^>]*>)([^<]*)()',
    "value attribute": r'(<data class="k3-value"[^>]*? value=")([^"]*)()',
    "sample size": r'(<data class="k3-value"[^>]*? data-n=")([^"]*)()',
    "artifacts of a value": r'(<data class="k3-value"[^>]*? data-artifacts=")([^"]*)()',
    "table cell": r'(<td class="k3-number"[^>]*>)([^<]*)()',
    "sort value": r'(<td class="k3-number" data-value=")([^"]*)()',
    "row digest": r'(<table [^>]*data-rows=")([^"]*)()',
    "chart data": r'(class="k3-spec">.*?"wall_s":)([\d.]+)()',
    "chart digest": r'(class="k3-spec">.*?"data":")([0-9a-f]{64})()',
    "chart title": r'(class="k3-spec">.*?"title":")(Reply length)()',
    "drawing label": r'(class="k3-static">.*?<text[^>]*>)(\d[\d.,]*)()',
    "drawing aria": r'(class="k3-static"><svg role="img" aria-label=")([^"]*)()',
    "head of a column": r'(<th scope="col"[^>]*>)([^<]+)()',
    "tier of a table": r'(<tbody data-artifacts="[0-9a-f]*" data-tier=")([^"]*)()',
    "artifacts of a table": r'(<tbody data-artifacts=")([0-9a-f]*)()',
    "shown SQL": r"(<code data-source[^>]*>.*?)(title: )()",
    "footer head": r'(<data class="k3-digest" value="[0-9a-f]*"><code>)([0-9a-f]*)()',
}


@pytest.mark.parametrize("place", sorted(PLACES))
def test_a_change_in_a_page_is_found(copy: Path, place: str) -> None:
    def change(html: str) -> str:
        match = re.search(PLACES[place], html, re.DOTALL)
        assert match, place
        old = match.group(2)
        new = bump(old) if DIGIT.search(old) else f"{old}74 "
        return html[: match.start(2)] + new + html[match.end(2) :]

    edit(copy, "wall-law.html", change)
    assert audit_site(copy).findings, place


def test_every_digit_of_every_bound_text_matters(built: Path, tmp_path: Path) -> None:
    html = (built / "wall-law.html").read_text("utf-8")
    texts = [
        match.span(1)
        for match in re.finditer(r'<(?:data|td) class="k3-(?:value|number)"[^>]*>([^<]*\d[^<]*)<', html)
    ]
    spots = [start + i for start, end in texts for i, c in enumerate(html[start:end]) if c.isdigit()]
    assert len(spots) > 60
    from k3repro.report._bound import Known
    from k3repro.report._queries import load_queries
    from k3repro.report._sources import Sources
    from k3repro.report._verify import Outcome, check_page, load_grammar
    from k3repro.store import Catalog

    store = Store(built / "artifacts")
    files = {
        a.seal: (f"artifacts/{a.path.relative_to(store.root).as_posix()}", a.path.stat().st_size)
        for a in store.artifacts()
    }
    sources = Sources(Catalog.of(store.artifacts()), load_queries(built / "queries"), files)
    known, grammar = Known.of(built, sources), load_grammar(built / "gate")
    for spot in [None, *spots]:
        changed = html if spot is None else html[:spot] + str((int(html[spot]) + 1) % 10) + html[spot + 1 :]
        outcome = Outcome()
        check_page("wall-law.html", changed.encode(), sources, known, grammar, [], set(), outcome)
        assert bool(outcome.findings) == (spot is not None), changed[(spot or 0) - 40 : (spot or 0) + 20]


def test_a_changed_row_in_a_download_is_found(copy: Path) -> None:
    edit(copy, "data/sweep.csv", bump)
    codes = {finding.code: str(finding) for finding in audit_site(copy).findings}
    assert "data" in codes, codes


def test_a_flipped_byte_in_an_artifact_is_found(copy: Path) -> None:
    path = next((copy / "artifacts").rglob("*.duckdb"))
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 1
    path.write_bytes(bytes(data))
    audit = audit_site(copy)
    assert any(finding.code == "manifest" for finding in audit.findings)


def test_the_newest_ledger_entry_deleted_is_found(copy: Path) -> None:
    head = Store(copy / "artifacts").heads()[0]
    (copy / "artifacts" / "ledger" / f"{head}.json").unlink()
    forge_manifest(copy)
    assert {"heads", "ledger"} & {finding.code for finding in audit_site(copy).findings}


def test_a_retraction_after_the_build_is_told(copy: Path, store: Store, tmp_path: Path) -> None:
    later = tmp_path / "later"
    shutil.copytree(store.root, later)
    local = Store(later)
    assert audit_site(copy, local).ok
    local.retract(local.find("sweep@twin:mi325x").seal, "the clock was wrong")
    findings = audit_site(copy, local).findings
    assert any("withdrawn since" in finding.what for finding in findings)


def test_a_retraction_stops_the_next_build_until_it_is_struck(
    site: Site, store: Store, tmp_path: Path
) -> None:
    shutil.copytree(store.root, tmp_path / "later")
    local = Store(tmp_path / "later")
    seal = local.find("printed@publication").seal
    local.retract(seal, "row 7 was misread")
    with pytest.raises(GateFailed, match="withdrawn: row 7 was misread") as caught:
        build_site(site, local)
    assert "site/queries/" in str(caught.value)
    (site.pages / "wall-law.md").unlink()
    for name in ("pair", "sweep", "nothing"):
        (site.queries / f"{name}.sql").unlink()
    (site.root / "withdrawn.toml").write_text(f'[[withdrawn]]\nseal = "{seal[:16]}"\nreason = "misread"\n')
    build_site(site, local)
    html = (site.build / "artifacts.html").read_text("utf-8")
    assert "<del>printed about publication</del>" in html and "row 7 was misread" in html
    assert audit_site(site.build, local).ok
    edit(site.build, "artifacts.html", lambda text: text.replace("row 7", "row 8"))
    assert not audit_site(site.build, local).ok


def test_another_history_is_told(copy: Path, tmp_path: Path) -> None:
    findings = audit_site(copy, Store(tmp_path / "empty")).findings
    assert any(finding.code == "heads" for finding in findings)


HOSTILE = {
    "a file is read": "SELECT seal, content AS osl FROM read_text('/etc/hostname'), artifacts ORDER BY 1",
    "a second statement": "SELECT seal FROM artifacts ORDER BY 1; DROP TABLE artifacts",
    "a write": "COPY (SELECT 1) TO '/tmp/k3-hostile.csv' -- ORDER BY",
    "a setting": "SET enable_external_access = true -- ORDER BY",
}


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_hostile_sql_is_refused(copy: Path, name: str) -> None:
    (copy / "queries" / "sweep.sql").write_text(HOSTILE[name], "utf-8")
    forge_manifest(copy)
    assert not audit_site(copy).ok
    assert not Path("/tmp/k3-hostile.csv").exists()


SCRIPTS = {
    "inline script": "<script>document.body.innerHTML = 'fast'</script>",
    "outside script": '<script src="https://example.com/x.js"></script>',
    "handler": '<p onclick="alert()">x</p>',
    "address": '<a href="java&#10;script:alert()">x</a>',
    "frame": '<iframe src="x.html"></iframe>',
    "image": '<img src="speed.png" alt="a chart">',
    "refresh": '<meta http-equiv="refresh" content="x">',
    "deep nesting": "<div>" * 5000,
}


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_what_could_change_a_page_later_is_found(copy: Path, name: str) -> None:
    edit(copy, "wall-law.html", lambda html: html.replace("</article>", f"{SCRIPTS[name]}</article>", 1))
    assert audit_site(copy).findings


JOURNEY_PLACES = {
    "a number of a step": r'(<ol class="k3-steps".*?data-value=")([^"]*)()',
    "the caption of a step": r'(<ol class="k3-steps".*?<p>)(The prompt)()',
    "the stage of a step": r'(<ol class="k3-steps".*?data-stage=")(prefill)()',
    "a number in a step's text": r'(<ol class="k3-steps".*?ends after</span> )([\d.]+)()',
    "the tier of a journey": r'(<ol class="k3-steps".*?data-tier=")(simulated)()',
    "the label of a switch": r'(class="k3-spec">.*?"label":")(act)()',
    "the column of a switch": r'(class="k3-spec">.*?"kind":"filter","label":"act","name":")(act)()',
    "a switch nobody asked for": r'(class="k3-spec">.*?"switches":\[)()()',
    "a row of a switched chart": r'(class="k3-spec">.*?"wall_s":)([\d.]+)()',
}


@pytest.mark.parametrize("place", sorted(JOURNEY_PLACES))
def test_a_change_in_a_journey_or_a_switch_is_found(copy: Path, place: str) -> None:
    def change(html: str) -> str:
        match = re.search(JOURNEY_PLACES[place], html, re.DOTALL)
        assert match, place
        old = match.group(2)
        new = bump(old) if DIGIT.search(old) else "seal" if old == "act" else f'{old}{{"kind":"log"}},'
        return html[: match.start(2)] + new + html[match.end(2) :]

    edit(copy, "journey.html", change)
    findings = [str(finding) for finding in audit_site(copy, alone=True).findings]
    assert any("journey.html" in finding for finding in findings), findings


INDEX_EDITS = {
    "a title": ("The wall law", "The wall law of 74"),
    "an address": ("wall-law.html#", "index.html#"),
    "an entry more": ("window.k3Search=[", 'window.k3Search=[["index.html","74","",""],'),
    "code": (";\n", ";document.title='x';\n"),
}


@pytest.mark.parametrize("name", sorted(INDEX_EDITS))
def test_a_change_in_the_search_index_is_found(copy: Path, name: str) -> None:
    edit(copy, "search/index.js", lambda text: text.replace(*INDEX_EDITS[name], 1))
    assert any(finding.code == "search" for finding in audit_site(copy, alone=True).findings)


def test_a_script_file_of_somebody_else_is_found(copy: Path) -> None:
    for name, more in (("k3.js", "\ndocument.title = 'x';\n"), ("theme.css", "p{display:none}")):
        edit(copy, f"assets/k3/{name}", lambda text, more=more: text + more)
        assert [item.where for item in audit_site(copy).findings if item.code == "script"] == [
            f"assets/k3/{name}"
        ]
        edit(copy, f"assets/k3/{name}", lambda text, more=more: text.removesuffix(more))


def test_a_folder_that_is_no_site_is_one_line(tmp_path: Path) -> None:
    from k3repro.errors import InputError

    with pytest.raises(InputError, match="no built site"):
        audit_site(tmp_path)


STOWAWAYS = {
    "page.HTML": "<p>74", "page": "<p>74", "page.xht": "<p>74", "notes.txt": "74 ms", "report.pdf": "74",
    "x.svg": "<svg/>", "assets/k3/table.png": "74", "sources/notes.txt": "74", "artifacts/x.txt": "74",
    "data/x.html": "74", "artifacts/ledger/short.json": "{}",
}  # fmt: skip


def test_a_file_that_no_check_knows_is_found(copy: Path) -> None:
    for name, text in STOWAWAYS.items():
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_text(text, "utf-8")
    forge_manifest(copy)
    assert set(STOWAWAYS) <= {finding.where for finding in audit_site(copy, alone=True).findings}


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_what_is_no_file_is_found_and_not_opened(copy: Path, kind: str) -> None:
    path = copy / "x.html"
    if kind == "link":
        path.symlink_to("/dev/zero")
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    assert [finding.where for finding in audit_site(copy, alone=True).findings] == ["x.html"]


NUMBERS_AS_NAMES = ["74 seconds each", "74-ish", "seven seconds", "twenty-seven", "x" * 99]


@pytest.mark.parametrize("term", NUMBERS_AS_NAMES)
def test_a_list_of_names_cannot_hold_a_number(tmp_path: Path, term: str) -> None:
    (tmp_path / "vocabulary.toml").write_text(f'[[name]]\nterm = "{term}"\nreason = "a name"\n')
    with pytest.raises(InputError, match="is a number, not a name"):
        load_grammar(tmp_path)


def test_the_reader_is_told_which_names_the_site_lets_pass(copy: Path) -> None:
    assert any("passes as a name: 'third-party'" in note for note in audit_site(copy, alone=True).notes)


DEEP = "[" * 200_000
BROKEN = {
    "manifest.json": DEEP, "wall-law.html": "", "gate/vocabulary.toml": "name = 5",
    "gate/exemptions.toml": "exemption = [5]",
    "queries/x.sql": b"\xff",
}  # fmt: skip


MANIFESTS = [
    "[5]", '{"heads": 5}',
    '{"heads": [["a"]]}', '{"heads": {"a": 1}}', '{"files": []}', '{"files": {"a": [1]}}',
    '{"heads": [' + "9" * 6_000_000 + "]}", '{"heads": [' + "[" * 900_000 + "]" * 900_000 + "]}",
    '{"heads": ["' + '","'.join(["a" * 64] * 100_000) + '"]}',
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(MANIFESTS)))
def test_a_manifest_of_another_shape_is_a_finding(copy: Path, store: Store, number: int) -> None:
    (copy / "manifest.json").write_text(MANIFESTS[number])
    found = {(item.code, item.where) for item in audit_site(copy, store)}
    assert ("manifest", "manifest.json") in found or ("heads", "manifest.json") in found


def test_a_ledger_larger_than_any_is_not_read(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("k3repro.report._audit._LEDGER_BYTES", 100)
    monkeypatch.setattr("k3repro.store.Ledger.entries", lambda self: pytest.fail("read"))
    (alone,) = audit_site(copy, alone=True).findings
    assert alone.where == "artifacts/ledger" and "100 are the most" in str(alone)


@pytest.mark.parametrize("name", sorted(BROKEN))
def test_a_broken_file_of_a_site_is_a_finding(copy: Path, name: str) -> None:
    content = BROKEN[name]
    (copy / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    assert audit_site(copy, alone=True).findings


def test_broken_data_in_a_page_is_a_finding(copy: Path) -> None:
    def change(html: str) -> str:
        html = re.sub(r'(class="k3-spec">).*?(</script>)', rf"\g<1>{DEEP}\g<2>", html, flags=re.DOTALL)
        return re.sub(r'data-source="[^"]*"', f'data-source="{"a" * 5000}"', html)

    edit(copy, "wall-law.html", change)
    assert audit_site(copy, alone=True).findings


@pytest.mark.parametrize("name", ["artifacts", "assets/k3/icon.svg", "index.html", "data/sweep.csv"])
def test_a_sparse_file_of_tens_of_gigabytes_is_not_read(copy: Path, name: str) -> None:
    path = next((copy / name).rglob("*.duckdb")) if name == "artifacts" else copy / name
    with path.open("r+b") as file:
        file.truncate(40_000_000_000)
    (finding,) = [item for item in audit_site(copy).findings if item.where.endswith(path.name)]
    assert finding.code == "size" and "40000000000 bytes" in finding.what


def test_work_is_bounded(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("k3repro.report._audit._WORK_S", 0.0)
    assert "time" in {finding.code for finding in audit_site(copy).findings}


def test_a_second_process_finds_what_one_finds(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many pages are checked by two processes; a helper that dies leaves its pages to the first."""
    folder = Path(shutil.copytree(built, tmp_path / "site"))
    for page in sorted(folder.glob("*.html")):
        page.write_text(
            page.read_text("utf-8").replace("</article>", "<p>It takes 74 ms.</p></article>"), "utf-8"
        )
    alone = audit_site(folder, alone=True)
    monkeypatch.setattr("k3repro.report._verify.MANY_PAGES", 1)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    helped = audit_site(folder, alone=True)
    assert (helped.pages, helped.values) == (alone.pages, alone.values)
    assert sorted(map(str, helped.findings)) == sorted(map(str, alone.findings)) and alone.findings
    monkeypatch.setattr("k3repro.report._workers._START", "raise SystemExit(3)")
    assert sorted(map(str, audit_site(folder, alone=True).findings)) == sorted(map(str, alone.findings))


def test_too_much_is_not_read(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes are looked at before contents: a page of endless tags, a large one, a folder of endless files."""
    folder = Path(shutil.copytree(built, tmp_path / "site"))
    page = folder / "journey.html"
    honest = page.read_text("utf-8")
    page.write_text(honest.replace("</article>", "<b></b>" * 100_000 + "</article>"), "utf-8")
    assert any("150000 tags" in str(finding) for finding in audit_site(folder, alone=True))
    page.write_text(honest.replace("</article>", "<!--" + "x" * 4_000_000 + "--></article>"), "utf-8")
    (alone,) = audit_site(folder, alone=True).findings
    assert "4000000 are the most" in str(alone)
    page.write_text(honest, "utf-8")
    monkeypatch.setattr("k3repro.report._audit._FILES", 10)
    (alone,) = audit_site(folder, alone=True).findings
    assert "files, and 10 are the most" in str(alone)


def test_the_noted_digest_of_vega_is_that_of_the_bundle() -> None:
    """An audit need not make the bundle of a version that was looked at; of any other it does."""
    from importlib import metadata, resources

    from k3repro.report._mkdocs import is_vega, vega_bundle

    noted = json.loads(resources.files("k3repro.report").joinpath("assets/vega.json").read_text("utf-8"))
    digest = hashlib.sha256(vega_bundle().encode()).hexdigest()
    assert noted[metadata.version("vl-convert-python")] == digest and is_vega(digest)
    assert not is_vega("0" * 64)
