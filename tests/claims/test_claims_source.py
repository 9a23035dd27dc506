"""Sources, skeletons, coverage: every numeral has a place, and a skeleton is true or false, never trusted."""

import json
from dataclasses import replace

import pytest
from claims_ledgers import HEAD, ledger_text
from hypothesis import given
from hypothesis import strategies as st

from k3repro.claims import (
    LedgerError,
    Library,
    build_skeleton,
    coverage,
    read_ledger_text,
    read_skeleton,
    read_source,
    source_from_text,
    write_skeleton,
)
from k3repro.errors import InputError

MARKDOWN = """# A study

It serves 84.2 GiB of experts.

## Results in detail

| con | out | total |
|---:|---:|---:|
| 4 | 51 | 257 |
| 8 | 89 | 447 / 5 |

After the table, 12 runs.

| other |
|---|
| 7 |
"""


def places(text):
    return {item.place: item.token for item in source_from_text(text).located}


def test_prose_and_tables_have_locators_a_person_can_follow():
    assert places(MARKDOWN) == {
        "a-study#1": "84.2",
        "results-in-detail/t1.r1.c0#1": "4",
        "results-in-detail/t1.r1.c1#1": "51",
        "results-in-detail/t1.r1.c2#1": "257",
        "results-in-detail/t1.r2.c0#1": "8",
        "results-in-detail/t1.r2.c1#1": "89",
        "results-in-detail/t1.r2.c2#1": "447",
        "results-in-detail/t1.r2.c2#2": "5",
        "results-in-detail#1": "12",
        "results-in-detail/t2.r1.c0#1": "7",
    }


def test_html_reads_as_the_same_tables(tmp_path):
    page = tmp_path / "page.html"
    page.write_text(
        "<html><head><style>a{width:99px}</style><script>var x = 42;</script></head><body><h1>A study</h1>"
        "<p>It serves 84.2&nbsp;GiB of experts.</p><h2>Results in detail</h2><table><tr><th>con</th><th>out</th></tr>"  # noqa: E501
        "<tr><td>4</td><td>51</td></tr></table></body></html>"
    )
    found = {item.place: item.token for item in read_source(page).located}
    assert found == {
        "a-study#1": "84.2",
        "results-in-detail/t1.r1.c0#1": "4",
        "results-in-detail/t1.r1.c1#1": "51",
    }


def test_html_cells_hold_blocks_and_raised_digits(tmp_path):
    page = tmp_path / "page.html"
    page.write_text(
        "<h1>T</h1><p>10<sup>9</sup> bytes</p><table><tr><th><p>con</p></th><th>out</th></tr>\n"
        "<tr><td><p>4</p></td><td><div>51<br>52</div></td></tr>\n<tr><td>8</td><td>89</td></tr></table><p>after 3</p>"  # noqa: E501
    )
    assert {item.place: item.token for item in read_source(page).located} == {
        "t#1": "10", "t#2": "9", "t/t1.r1.c0#1": "4", "t/t1.r1.c1#1": "51", "t/t1.r1.c1#2": "52",
        "t/t1.r2.c0#1": "8", "t/t1.r2.c1#1": "89", "t#3": "3",
    }  # fmt: skip


def test_rendered_text_with_tabs_and_anchor_marks():
    text = "At a Glance#\n\nIt has 93 layers.\n\ncon\tout\n4\t51\n\nNext Part#\n\nAnd 12.\n"
    assert places(text) == {
        "at-a-glance#1": "93",
        "at-a-glance/t1.r1.c0#1": "4",
        "at-a-glance/t1.r1.c1#1": "51",
        "next-part#1": "12",
    }


def test_sections_of_the_same_name_are_told_apart():
    assert set(places("# Same\n\n1\n\n# Same\n\n2\n")) == {"same#1", "same-2#1"}


@given(st.text(max_size=300))
def test_every_numeral_of_any_text_has_its_own_place(text):
    located = source_from_text(text).located
    assert len({item.place for item in located}) == len(located)


@pytest.mark.parametrize(("data", "says"), [(b"\xff\xfe1", "UTF-8"), (b"1" * (16 * 2**20 + 1), "larger")])
def test_unreadable_sources_are_named(tmp_path, data, says):
    path = tmp_path / "x.txt"
    path.write_bytes(data)
    with pytest.raises(InputError, match=says):
        read_source(path)
    with pytest.raises(InputError, match="cannot be read"):
        read_source(tmp_path / "absent.txt")


def test_a_skeleton_round_trips_and_holds_no_words(tmp_path):
    source = source_from_text(MARKDOWN)
    skeleton = build_skeleton("study", source)
    write_skeleton(skeleton, tmp_path / "s.json")
    assert read_skeleton(tmp_path / "s.json") == skeleton and not skeleton.matches(source)
    text = (tmp_path / "s.json").read_text()
    assert "experts" not in text and "serves" not in text


def test_the_same_text_under_another_salt_has_other_hashes():
    source = source_from_text(MARKDOWN)
    one, two = build_skeleton("s", source), build_skeleton("s", source)
    assert one.salt != two.salt and one.bones[0].context != two.bones[0].context


@pytest.mark.parametrize(
    "change",
    [
        ("84.2", "84.3"),
        ("experts", "weights"),
        ("12 runs", "runs"),
        ("# A study", "# The study"),
        ("257", "257 3"),
    ],
)
def test_a_skeleton_of_another_text_is_found_out(change):
    skeleton = build_skeleton("study", source_from_text(MARKDOWN))
    assert skeleton.matches(source_from_text(MARKDOWN.replace(*change)))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        '{"numerals": [[1]]}',
        '{"version": 9, "document": "d", "sha256": "", "salt": "", "numerals": []}',
    ],
)
def test_broken_skeletons_are_named(tmp_path, text):
    (tmp_path / "s.json").write_text(text)
    with pytest.raises(InputError):
        read_skeleton(tmp_path / "s.json")


def study_ledger(*claims):
    return read_ledger_text(ledger_text(*claims).replace('at = "top"', 'at = "a-study"'))


def test_coverage_counts_what_is_missing():
    skeleton = build_skeleton("study", source_from_text(MARKDOWN))
    cover = coverage(study_ledger('id = "w", printed = "84.2"'), skeleton)
    assert (cover.numerals, cover.claimed, len(cover.uncovered)) == (10, 1, 9)
    assert {code for code, _ in cover.problems} == {"K3C401"}


def test_too_many_non_claims_are_a_finding():
    text = (
        HEAD
        + '[[rule]]\nid = "r"\nreason = "x"\ncount = 1\n[[section]]\nat = "a-study"\nclaims = [{ n = 1, printed = "84.2", skip = "r" }]\n'  # noqa: E501
    )
    skeleton = build_skeleton("study", source_from_text("# A study\n\n84.2\n"))
    assert [code for code, _ in coverage(read_ledger_text(text), skeleton).problems] == ["K3C402"]


@pytest.mark.parametrize(
    "claim", ['id = "w", printed = "84.3"', 'id = "v", printed = "84.2", kind = "count"']
)
def test_a_claim_must_stand_in_the_skeleton(claim):
    skeleton = build_skeleton("study", source_from_text(MARKDOWN))
    ledger = study_ledger(claim)
    if "84.3" in claim:
        with pytest.raises(LedgerError) as caught:
            coverage(ledger, skeleton)
        assert caught.value.code == "K3C505" and caught.value.exit_code == 2
    else:
        coverage(ledger, skeleton)
    elsewhere = read_ledger_text(ledger_text('id = "w", printed = "84.2"'))
    with pytest.raises(LedgerError, match="no numeral there"):
        coverage(elsewhere, skeleton)


def library(tmp_path, ledger, text):
    for folder in ("claims", "skeletons"):
        (tmp_path / "publications" / folder).mkdir(parents=True, exist_ok=True)
    (tmp_path / "publications" / "claims" / "t.toml").write_text(ledger)
    skeleton = replace(build_skeleton("t", source_from_text(text)), sha256="")
    source = tmp_path / "source.md"
    source.write_text(text)
    write_skeleton(
        build_skeleton("t", read_source(source)), tmp_path / "publications" / "skeletons" / "t.json"
    )
    assert skeleton.bones
    return Library(tmp_path), source


TEXT = "# A study\n\nIt serves 84.2 GiB of experts to whoever may ask for them, at any hour.\n"
LEDGER = ledger_text('id = "w", printed = "84.2", unit = "GiB"').replace('at = "top"', 'at = "a-study"')


def test_a_true_source_passes(tmp_path):
    shelf, source = library(tmp_path, LEDGER, TEXT)
    found = shelf.audit("t", source=source)
    assert found.ok and not found.source_problems


def test_an_anchor_that_vanished_is_named(tmp_path):
    shelf, source = library(tmp_path, LEDGER, TEXT)
    source.write_text(TEXT.replace("84.2", "84.3"))
    with pytest.raises(LedgerError) as caught:
        shelf.audit("t", source=source)
    assert caught.value.code == "K3C505" and "a-study#1" in str(caught.value)


def test_a_source_with_other_words_elsewhere_is_a_finding(tmp_path):
    shelf, source = library(tmp_path, LEDGER, TEXT)
    source.write_text(TEXT + "\nAn afterthought of many words, far from any numeral that was claimed.\n")
    found = shelf.audit("t", source=source)
    assert not found.ok and "SHA-256" in found.source_problems[0]


def test_missing_skeleton_names_the_way_out(tmp_path):
    shelf, source = library(tmp_path, LEDGER, TEXT)
    (tmp_path / "publications" / "skeletons" / "t.json").unlink()
    with pytest.raises(InputError, match="--source"):
        shelf.audit("t")
    assert shelf.audit("t", source=source).coverage.share == 1


def test_a_missing_ledger_or_primary_is_named(tmp_path):
    shelf, _ = library(tmp_path, LEDGER.replace('title = "T"', 'title = "T"\nprimary = "absent"'), TEXT)
    with pytest.raises(LedgerError, match="absent"):
        shelf.audit("t")
    with pytest.raises(InputError, match="Ledgers here: t"):
        shelf.ledger("nothing")


def test_skeletons_are_json_with_one_numeral_a_line():
    skeleton = build_skeleton("s", source_from_text(MARKDOWN))
    assert json.dumps([skeleton.bones[0].token, skeleton.bones[0].offset])
    assert all(MARKDOWN[bone.offset :].startswith(bone.token) for bone in skeleton.bones)
