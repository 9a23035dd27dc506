"""The audit as an artifact: sealed once, recomputed from what is sealed, replaced when the ledger changes."""

from types import SimpleNamespace

import pytest
from claims_ledgers import ledger_text

from k3repro.claims import build_skeleton, read_source, seal_audits, write_skeleton
from k3repro.claims._record import _measured
from k3repro.errors import K3Error
from k3repro.store import Catalog, Column, Header, Schema, Store, Table

POST = "# Post\n\nIt serves 51 and 300 in all, of 9.\n"
LEDGER = ledger_text(
    'id = "a", printed = "51", unit = "tokens/s"',
    'id = "b", printed = "300", unit = "tokens/s", from = ["a * 5"]',
    'id = "c", printed = "9", artifact = { artifact = "wall-law", query = "SELECT 1" }',
).replace('at = "top"', 'at = "post"')


@pytest.fixture
def store(tmp_path):
    root = tmp_path / "artifacts"
    for folder in ("claims", "skeletons"):
        (root / "publications" / folder).mkdir(parents=True)
    (root / "publications" / "claims" / "t.toml").write_text(LEDGER)
    (tmp_path / "post.md").write_text(POST)
    skeleton = build_skeleton("t", read_source(tmp_path / "post.md"))
    write_skeleton(skeleton, root / "publications" / "skeletons" / "t.json")
    return Store(root)


def test_verdicts_steps_and_coverage_are_sealed(store):
    (audit,) = seal_audits(store)
    assert (audit.name, audit.subject, audit.tier, audit.basis) == (
        "claims-audit",
        "t",
        "derived",
        "published",
    )
    rows = {row["claim"]: row for row in audit.rows("claims")}
    assert rows["b"]["verdict"] == "contradicted" and rows["b"]["derived"] == "[252.5, 257.5]"
    assert rows["b"]["inputs"] == "a = 51 tokens/s" and rows["b"]["in_headline"]
    assert rows["b"]["printed"] == "300 tokens/s" and "257" in rows["b"]["change"]
    (summary,) = audit.rows("summary")
    assert (summary["numerals"], summary["own_claims"], summary["contradicted"], summary["measured"]) == (
        3,
        3,
        1,
        0,
    )
    assert audit.rows("steps")[0]["formula"] == "a * 5"


def test_sealing_again_writes_nothing_and_recomputing_finds_nothing(store):
    first = [audit.seal for audit in seal_audits(store)]
    assert [audit.seal for audit in seal_audits(store)] == first
    assert not store.verify() and not store.recompute()


def test_another_ledger_replaces_the_audit(store):
    seal_audits(store)
    path = store.root / "publications" / "claims" / "t.toml"
    path.write_text(LEDGER.replace('"a * 5"', '"a * 5.9"'))
    (audit,) = seal_audits(store)
    assert store.find("claims-audit@t").seal == audit.seal
    catalog = Catalog.of(store.artifacts())
    rows = catalog.query("SELECT claim, verdict FROM claims_audit_claims WHERE claim = 'b'")
    assert rows == [{"claim": "b", "verdict": "supported"}]


def test_a_comment_changes_nothing(store):
    (first,) = seal_audits(store)
    path = store.root / "publications" / "claims" / "t.toml"
    path.write_text("# a remark for people\n" + LEDGER)
    assert seal_audits(store)[0].seal == first.seal


def test_a_wrong_ledger_seals_nothing(store):
    path = store.root / "publications" / "claims" / "t.toml"
    path.write_text(LEDGER.replace('"a * 5"', '"z * 5"'))
    with pytest.raises(K3Error, match="K3C501"):
        seal_audits(store)
    assert not store.artifacts()


def test_going_back_to_an_earlier_ledger_keeps_what_was_between(store):
    (first,) = seal_audits(store)
    path = store.root / "publications" / "claims" / "t.toml"
    path.write_text(LEDGER.replace('"a * 5"', '"a * 5.9"'))
    seal_audits(store)
    path.write_text(LEDGER)
    (back,) = seal_audits(store)
    assert store.find("claims-audit@t").seal == back.seal and not store.recompute()
    for table in ("claims", "steps", "summary"):
        assert back.rows(table) == first.rows(table)
    told = [
        (row["outcome"], row["before"]) for row in back.rows("tree")
        if row["claim"] == "b" and row["role"] == "audit before"
    ]  # fmt: skip
    assert [outcome for outcome, _ in told] == ["contradicted", "supported"]
    assert told[0][1] == first.seal and {seal for _, seal in told} <= set(back.inputs)


def test_the_tree_of_a_claim_holds_what_its_page_shows(store):
    (audit,) = seal_audits(store)
    rows = [row for row in audit.rows("tree") if row["claim"] == "b"]
    assert [(row["depth"], row["role"]) for row in rows] == [
        (0, "claim"), (1, "printed at"), (1, "check"), (2, "from"), (1, "artifact"), (1, "finding"),
        (1, "smallest change"), (1, "history"),
    ]  # fmt: skip
    check, given = rows[2], rows[3]
    assert (check["formula"], check["interval"], check["outcome"]) == (
        "a * 5",
        "[252.5, 257.5]",
        "contradicted",
    )
    assert (given["name"], given["interval"], given["link"]) == ("a", "[50.5, 51.5]", "claims/t/post.html#a")
    assert rows[-1]["text"] == "the same verdict in every audit so far"


def _measured_on(store, subject):
    schema = Schema((Table("rows", (Column("wall_s", "DOUBLE"),), key=("wall_s",)),))
    evidence = [{"kind": "build_info", "value": "vllm"}, {"kind": "metrics", "value": "vllm:requests"}]
    run = store.begin(
        Header("thing", subject, "probe", "k3repro.test:thing", serve={"evidence": evidence}), schema
    )
    run.commit("all", {"rows": [{"wall_s": 1.0}]})
    return run.seal(verdict={"ok": True, "reasons": []})


def test_only_measurements_that_a_binding_cites_are_inputs(store):
    mine, other = _measured_on(store, "mi325x"), _measured_on(store, "vllm-0.32.0/tiny@cpu")
    assert (mine.tier, other.tier) == ("measured", "measured")
    query = "SELECT wall_s AS value, tier, seal FROM thing_rows WHERE subject = 'mi325x'"
    wrong = SimpleNamespace(artifact="thing", query="SELECT nonsense FROM thing_rows")
    claim = SimpleNamespace(bindings=[SimpleNamespace(artifact="thing", query=query), wrong])
    found = _measured(store, SimpleNamespace(claims={"a": claim}))
    assert [artifact.seal for artifact in found] == [mine.seal]
