"""The verdict board builds from the shipped ledgers, and every number on it passes the report's gate."""

import html
import shutil
from html import unescape
from pathlib import Path

import pytest

from k3repro.claims import seal_audits
from k3repro.report import Site, build_site
from k3repro.store import Store

REPOSITORY = Path(__file__).resolve().parents[2]
HOME = "---\ntitle: Home\ndescription: Home.\n---\n\n# Home\n\n[Claims](claims/index.md)\n"


@pytest.mark.slow
def test_the_claims_pages_build_and_hold_every_contradiction(tmp_path):
    root = tmp_path / "project"
    # A finding quotes the capacity law beside its claim, so the claims' own artifacts are not enough.
    ours = shutil.ignore_patterns(".cache", ".wip", ".quarantine")
    shutil.copytree(REPOSITORY / "artifacts", root / "artifacts", ignore=ours)
    store = Store(root / "artifacts")
    audits = seal_audits(store)
    site = root / "site"
    shutil.copytree(REPOSITORY / "site" / "pages" / "claims", site / "pages" / "claims")
    for name in ("mkdocs.yml", "vocabulary.toml"):
        shutil.copyfile(REPOSITORY / "site" / name, site / name)
    shutil.copytree(REPOSITORY / "site" / "figures", site / "figures")
    shutil.copytree(REPOSITORY / "site" / "queries", site / "queries")
    (site / "pages" / "index.md").write_text(HOME)
    built = build_site(Site(site), store).site
    page = unescape((built / "claims" / "findings.html").read_text(encoding="utf-8"))
    for audit in audits:
        for row in audit.rows("claims"):
            if row["in_headline"]:
                assert row["claim"] in page, row["claim"]
    for audit in audits:
        rows = [row for row in audit.rows("claims") if row["page"]]
        assert len(rows) >= sum(not row["same"] for row in audit.rows("claims"))
        for row in rows:
            folder = built / "claims" / audit.subject
            text = html.unescape((folder / f"{row['section']}.html").read_text(encoding="utf-8"))
            assert text.count(f' id="{row["page"]}"') == 1, row["claim"]
