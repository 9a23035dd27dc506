"""Drafting a ledger, comparing versions, SARIF, JSON, and claims bound to artifacts."""

import json
import tomllib

import pytest
from claims_ledgers import ledger_text
from hypothesis import given
from hypothesis import strategies as st

from k3repro import claims
from k3repro.claims import (
    RULES,
    Audit,
    LedgerError,
    audit_json,
    audit_ledger,
    audit_lines,
    build_skeleton,
    coverage,
    diff_ledgers,
    diff_sources,
    draft_ledger,
    read_ledger_text,
    rule_text,
    sarif,
    source_from_text,
)
from k3repro.claims._artifacts import backer
from k3repro.errors import StoreError

POST = """# Post

We serve about 1,453.7 GiB in Figure 3, at 74 ms per token and 3.1x, within 2% of plan.

| con | tokens/s |
|---|---|
| 4 | 51 |
"""


def test_public_names_are_sorted_and_there():
    shape = [(not name.isupper(), name[0].islower(), name) for name in claims.__all__]
    assert shape == sorted(shape)
    assert all(hasattr(claims, name) for name in claims.__all__)


def test_digits_of_addresses_are_skipped_in_a_draft():
    text = (
        "---\nimage: /assets/figures/2026-08-06-post/chart-25k.png\n---\n# A\n\nSee "
        "[it](https://x.org/blog/2026-04-21-b) "
        "at 25 ms.\n"
    )
    draft = draft_ledger("post", source_from_text(text))
    claims = read_ledger_text(draft.toml).claims
    assert [c.printed for c in claims.values()] == ["25"] and draft.skipped == draft.numerals - 1


def test_a_draft_parses_covers_everything_and_says_what_it_missed():
    source = source_from_text(POST)
    draft = draft_ledger("post", source)
    ledger = read_ledger_text(draft.toml)
    cover = coverage(ledger, build_skeleton("post", source))
    assert cover.share == 1 and draft.numerals == 7
    by_print = {claim.printed: claim for claim in ledger.claims.values()}
    assert by_print["1,453.7"].unit.name == "GiB" and by_print["1,453.7"].hedge == "about"
    assert by_print["74"].unit.name == "ms/token" and by_print["3.1x"].unit.name == "x"
    assert by_print["2%"].unit.name == "%" and by_print["2%"].hedge == "within"
    assert by_print["51"].unit.name == "tokens/s" and by_print["4"].unit.name == ""
    assert draft.skipped == 1 and draft.in_tables == 2 and draft.unplaced == 1
    assert not any(claim.relations for claim in ledger.claims.values())


@given(st.text(max_size=200))
def test_any_text_drafts_to_a_ledger_that_covers_it(text):
    source = source_from_text(text)
    ledger = read_ledger_text(draft_ledger("any", source).toml)
    assert coverage(ledger, build_skeleton("any", source)).share == 1


def test_two_ledgers_are_matched_by_id():
    old = read_ledger_text(
        ledger_text('id = "k", printed = "4.47", unit = "s/token"', 'id = "gone", printed = "5"')
    )
    new = read_ledger_text(
        ledger_text('id = "k", printed = "74", unit = "ms/token"', 'id = "came", printed = "5"')
    )
    found = {change.id: change for change in diff_ledgers(old, new)}
    assert {name: change.kind for name, change in found.items()} == {
        "k": "changed",
        "gone": "removed",
        "came": "added",
    }
    assert found["k"].ratio == pytest.approx(0.074 / 4.47)
    other = read_ledger_text(ledger_text('id = "k", printed = "4.47", unit = "token"'))
    assert diff_ledgers(old, other)[0].kind == "unit"


def test_the_same_number_in_another_unit_is_the_same():
    old = read_ledger_text(ledger_text('id = "k", printed = "1,141", unit = "ms"'))
    new = read_ledger_text(ledger_text('id = "k", printed = "1.141", unit = "s"'))
    assert diff_ledgers(old, new)[0].kind == "same"


def test_two_documents_are_aligned_by_their_words():
    new = POST.replace("74 ms", "82 ms").replace("| 4 | 51 |", "| 4 | 51 |\n| 8 | 89 |")
    changes = diff_sources(source_from_text(POST), source_from_text(new))
    assert [(c.old, c.new) for c in changes if c.kind == "changed"] == [("74", "82")]
    assert [c.new for c in changes if c.kind == "added"] == ["8", "89"]
    assert not [c for c in diff_sources(source_from_text(POST), source_from_text(POST)) if c.kind != "same"]


@given(st.lists(st.integers(0, 999), max_size=12), st.lists(st.integers(0, 999), max_size=12))
def test_a_document_diff_loses_no_numeral(old, new):
    one, two = (source_from_text(" and then ".join(map(str, numbers))) for numbers in (old, new))
    changes = diff_sources(one, two)
    assert sum(bool(c.places[0]) for c in changes) == len(old)
    assert sum(bool(c.places[1]) for c in changes) == len(new)


def audited(tmp_path):
    path = tmp_path / "t.toml"
    text = ledger_text(
        'id = "a", printed = "51"', 'id = "b", printed = "300", from = ["a * 5"]', 'id = "c", printed = "9"'
    )
    path.write_text(text)
    ledger = claims.read_ledger(path)
    source = source_from_text("51 and 300 and 9")
    return Audit(ledger, tuple(audit_ledger(ledger)), coverage(ledger, build_skeleton("t", source)))


def test_json_has_the_promised_fields_and_no_nan(tmp_path):
    result = json.loads(json.dumps(audit_json([audited(tmp_path)]), allow_nan=False))
    claim = next(c for c in result["claims"] if c["id"] == "b")
    assert {"id", "source", "locator", "printed", "verdict", "interval", "derivation"} <= set(claim)
    assert claim["interval"] == [252.5, 257.5] and claim["verdict"] == "contradicted"
    assert claim["derivation"][0]["inputs"] == [{"id": "a", "printed": "51", "unit": "", "locator": "top#1"}]
    assert result["ok"] is False and result["ledgers"][0]["coverage"]["covered"] == 1


def test_lines_for_people_show_where_claim_interval_and_change(tmp_path):
    text = "\n".join(audit_lines(audited(tmp_path)))
    for part in ("top#2", "300", "[252.5, 257.5]", "claimed [299.5, 300.5]", "a = 51", "257 in place of 300"):
        assert part in text


def test_sarif_points_at_the_line_of_the_ledger_or_the_source(tmp_path):
    audit = audited(tmp_path)
    (run,) = sarif([audit])["runs"]
    (result,) = run["results"]
    assert result["ruleId"] == "K3C101" and result["level"] == "error"
    assert {rule["id"] for rule in run["tool"]["driver"]["rules"]} == set(RULES)
    region = result["locations"][0]["physicalLocation"]
    line = (tmp_path / "t.toml").read_text().splitlines()[region["region"]["startLine"] - 1]
    assert 'id = "b"' in line
    source = tmp_path / "post.md"
    source.write_text("51 and\n\n300 and 9")
    place = sarif([audit], source=source)["runs"][0]["results"][0]["locations"][0]["physicalLocation"]
    assert place["region"]["startLine"] == 3 and place["artifactLocation"]["uri"].endswith("post.md")


def test_every_rule_is_described():
    assert all(level in ("error", "warning", "note") and text.endswith(".") for level, text in RULES.values())
    assert rule_text("K3C101")


class FakeArtifacts:
    def __init__(self, rows=(), withdrawn=None, error=""):
        self.rows, self.gone, self.error = list(rows), withdrawn or {}, error

    def query(self, sql):
        if self.error:
            raise StoreError(self.error)
        return self.rows

    def withdrawn(self):
        return self.gone


def bound(rows=(), tolerance='tolerance = 0.1, tolerance_from = "repeat serves"', **fake):
    binding = f'{{ artifact = "abcdef123456", query = "SELECT 1", {tolerance} }}'
    ledger = read_ledger_text(
        ledger_text(f'id = "k", printed = "74", unit = "ms/token", artifact = {binding}')
    )
    (verdict,) = audit_ledger(ledger, back=backer(FakeArtifacts(rows, **fake)))
    return verdict


def row(value, tier, relation="held-out"):
    return {"value": value, "tier": tier, "n": 12, "seal": "f" * 64, "relation": relation}


@pytest.mark.parametrize(
    ("value", "tier", "verdict"),
    [
        (76.0, "measured", "supported"),
        (90.0, "measured", "contradicted"),
        (76.0, "simulated", "unbacked"),
        (90.0, "simulated", "unbacked"),
    ],
)
def test_only_measured_artifacts_decide(value, tier, verdict):
    found = bound([row(value, tier)])
    assert found.verdict == verdict and found.backed == (tier == "measured")
    (backing,) = found.backings
    assert (backing.n, backing.tolerance_from, float(backing.difference)) == (12, "repeat serves", value - 74)
    assert found.code == {"contradicted": "K3C201", "unbacked": "K3C202"}.get(verdict, "")


def test_measured_comes_before_simulated():
    assert bound([row(90.0, "simulated"), row(75.0, "measured")]).verdict == "supported"


@pytest.mark.parametrize("relation", ["in-sample", "same-law", None])
def test_no_difference_stands_beside_a_value_calibrated_on_the_claim(relation):
    """Nor where the query does not say how they stand to each other."""
    (backing,) = bound([row(76.0, "simulated", relation)]).backings
    assert backing.difference is None


def test_a_relation_that_nobody_knows_is_refused():
    with pytest.raises(LedgerError, match="unknown relation 'close'"):
        bound([row(76.0, "simulated", "close")])


def test_nothing_measured_is_unbacked():
    assert bound([]).verdict == "unbacked"
    assert bound(error="Table osl_sweep does not exist").verdict == "unbacked"
    assert bound([row(None, "measured")]).verdict == "unbacked"


def test_a_retracted_artifact_and_a_broken_query_are_named():
    with pytest.raises(LedgerError) as caught:
        bound(withdrawn={"abcdef123456" + "0" * 52: "the clock was wrong"})
    assert caught.value.code == "K3C504" and "the clock was wrong" in str(caught.value)
    with pytest.raises(LedgerError) as caught:
        bound(error="syntax error at end of input")
    assert caught.value.code == "K3C501"


def test_the_shipped_ledgers_are_toml_a_person_can_read():
    from pathlib import Path

    folder = Path(__file__).resolve().parents[2] / "artifacts" / "publications"
    for path in folder.glob("*/claims/*.toml"):
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        assert all(entry.get("of") or "same" in entry or "skip" in entry or "primary" in entry
                   for section in data["section"] for entry in section["claims"])  # fmt: skip


def test_rules_hedges_and_keys_are_in_the_docs():
    from pathlib import Path

    text = (Path(__file__).resolve().parents[2] / "docs" / "claims.md").read_text(encoding="utf-8")
    for word in (
        *RULES,
        *claims.HEDGES,
        "premise",
        "statistic",
        "observations",
        "assuming",
        "tolerance_from",
    ):
        assert word in text, word
