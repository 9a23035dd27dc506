"""`k3repro audit claims|extract|diff`: exit codes, JSON, files, and errors without a traceback."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from k3repro.cli import main
from k3repro.cli.audit import audit

ROOT = Path(__file__).resolve().parents[2] / "artifacts"
POST = "# Post\n\nIt serves 84.2 GiB of experts on 16 GPUs, about 1347.1 GiB in all.\n"
LEDGER = """[ledger]
id = "post"
title = "Post"

[[section]]
at = "post"
claims = [
  { n = 1, id = "gpu", printed = "84.2", unit = "GiB/GPU", from = ["all / ranks"] },
  { n = 2, id = "ranks", printed = "16", unit = "GPU", kind = "count" },
  { n = 3, id = "all", printed = "1347.1", unit = "GiB", hedge = "about" },
]
"""


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(audit, [str(argument) for argument in arguments])
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "post.md").write_text(POST)
    (tmp_path / "post.toml").write_text(LEDGER)
    return tmp_path


def test_a_clean_ledger_of_ones_own_exits_zero(folder):
    code, out, _ = run("claims", folder / "post.toml", "--source", folder / "post.md")
    assert code == 0 and "coverage 100.0% of 3 numerals" in out


def test_json_of_the_shipped_ledgers(monkeypatch):
    code, out, _ = run("claims", "--store", ROOT, "--json")
    result = json.loads(out)
    assert code == 1 and not result["ok"]
    assert {entry["id"] for entry in result["ledgers"]} == {
        "amd-di-kimi-k3", "earlier-report", "kimi-k3-summary", "mi325x-crossarch",
    }  # fmt: skip
    assert all(entry["coverage"]["covered"] == 1 for entry in result["ledgers"])
    fields = {"id", "source", "locator", "printed", "verdict", "interval", "derivation"}
    assert all(fields <= set(claim) for claim in result["claims"])
    verdicts = {claim["verdict"] for claim in result["claims"]}
    assert verdicts == {"supported", "repeats", "contradicted", "undecidable", "unbacked"}


def test_the_summary_is_checked_against_the_publication():
    _, out, _ = run("claims", "kimi-k3-summary", "--store", ROOT, "--json")
    fidelity = [claim["fidelity"] for claim in json.loads(out)["claims"] if not claim["same"]]
    tally = {kind: fidelity.count(kind) for kind in set(fidelity)}
    assert tally == {"faithful": 38, "unit changed": 3, "context lost": 4}


@pytest.mark.parametrize(
    ("change", "code", "says"),
    [
        (('"84.2"', '"48.2"'), 2, "K3C505"),
        (('"all / ranks"', '"all / rank"'), 2, "K3C501"),
        (('"all / ranks"', '"all * ranks"'), 2, "K3C503"),
        (('"all / ranks"', '"gpu"'), 2, "K3C502"),
        (("printed", "print"), 2, "K3C507"),
    ],
)
def test_wrong_ledgers_exit_two_in_one_line(folder, change, code, says, capsys):
    (folder / "post.toml").write_text(LEDGER.replace(*change))
    with pytest.raises(SystemExit) as caught:
        main(["audit", "claims", str(folder / "post.toml"), "--source", str(folder / "post.md")])
    text = capsys.readouterr().err
    assert caught.value.code == code and says in text and "Traceback" not in text and text.count("\n") == 1


def test_a_contradiction_exits_one_and_says_what_would_be_true(folder):
    (folder / "post.md").write_text(POST.replace("84.2", "99.9"))
    (folder / "post.toml").write_text(LEDGER.replace("84.2", "99.9"))
    code, out, _ = run("claims", folder / "post.toml", "--source", folder / "post.md")
    assert code == 1
    for part in (
        "post#1",
        "99.9 GiB/GPU",
        "is contradicted",
        "claimed [99.85, 99.95]",
        "smallest change: 92.6",
    ):
        assert part in out


def test_a_changed_source_exits_two(folder, capsys):
    run("claims", folder / "post.toml", "--source", folder / "post.md")
    (folder / "post.md").write_text(POST.replace("16 GPUs", "8 GPUs"))
    with pytest.raises(SystemExit) as caught:
        main(["audit", "claims", str(folder / "post.toml"), "--source", str(folder / "post.md")])
    assert caught.value.code == 2 and "post#2" in capsys.readouterr().err


def test_sarif_is_written(folder):
    run("claims", folder / "post.toml", "--source", folder / "post.md", "--sarif", folder / "out.sarif")
    data = json.loads((folder / "out.sarif").read_text())
    assert data["version"] == "2.1.0" and data["runs"][0]["results"] == []


def test_extract_then_claims_is_a_start_that_works(folder):
    code, _, err = run("extract", folder / "post.md", "--to", folder / "draft.toml")
    assert code == 0 and "3 numerals" in err and "with unit" in err
    code, out, _ = run("claims", folder / "draft.toml", "--source", folder / "post.md")
    assert code == 0 and "3 unbacked" in out


def test_extract_never_overwrites(folder, capsys):
    with pytest.raises(SystemExit) as caught:
        main(["audit", "extract", str(folder / "post.md"), "--to", str(folder / "post.toml")])
    assert caught.value.code == 2 and "exists already" in capsys.readouterr().err
    assert (folder / "post.toml").read_text() == LEDGER


def test_extract_json(folder):
    code, out, _ = run("extract", folder / "post.md", "--json")
    result = json.loads(out)
    assert code == 0 and result["numerals"] == 3 and "[[section]]" in result["ledger"]


def test_diff_of_two_ledgers_and_of_two_documents(folder):
    code, out, _ = run("diff", "earlier-report", "amd-di-kimi-k3", "--store", ROOT, "--json")
    changes = {change["id"]: change for change in json.loads(out)["changes"]}
    assert (
        code == 1
        and changes["k.mi325x"]["old"] == "4.47 s/token"
        and changes["k.mi325x"]["new"] == "74 ms/token"
    )
    assert changes["needle.ok"]["kind"] == "same"
    (folder / "new.md").write_text(POST.replace("16 GPUs", "32 GPUs"))
    code, out, _ = run("diff", folder / "post.md", folder / "new.md")
    assert code == 1 and "16 -> 32 (x2)" in out
    code, out, _ = run("diff", folder / "post.md", folder / "post.md")
    assert code == 0 and out.startswith("3 same, 0 changed")


def test_diff_refuses_a_ledger_against_a_document(folder, capsys):
    with pytest.raises(SystemExit) as caught:
        main(["audit", "diff", str(folder / "post.toml"), str(folder / "post.md")])
    assert caught.value.code == 2 and "two ledgers or two documents" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["claims", "extract", "diff"])
def test_help_has_examples(command):
    code, out, _ = run(command, "--help")
    assert code == 0 and f"k3repro audit {command}" in out


def test_a_source_without_a_ledger_is_found_by_its_bytes_or_named(folder, capsys):
    with pytest.raises(SystemExit) as caught:
        main(["audit", "claims", "--store", str(ROOT), "--source", str(folder / "post.md")])
    assert caught.value.code == 2 and "no ledger here" in capsys.readouterr().err


def test_one_claim_with_its_derivation(folder, capsys):
    code, out, _ = run("claims", folder / "post.toml", "--source", folder / "post.md", "--claim", "gpu")
    assert code == 0
    for part in (
        "gpu: prints 84.2 GiB/GPU at post#1",
        "all / ranks gives [75.7744, 92.6131]",
        "ranks: prints 16 GPUs",
    ):
        assert part in out
    code, out, _ = run(
        "claims", folder / "post.toml", "--source", folder / "post.md", "--claim", "gpu", "--json"
    )
    assert json.loads(out)["id"] == "gpu"
    with pytest.raises(SystemExit) as caught:
        main(["audit", "claims", "--store", str(ROOT), "amd-di-kimi-k3", "--claim", "max.mi999x"])
    assert caught.value.code == 2 and "Near it: " in capsys.readouterr().err
