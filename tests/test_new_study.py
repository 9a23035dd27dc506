"""docs/new-study.md by its commands: a third study in an empty folder, built, audited, no module touched."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
STUDY = REPOSITORY / "tests" / "new_study"
GUIDE = REPOSITORY / "docs" / "new-study.md"
COMMAND = Path(sys.executable).parent / "k3repro"
DATA = {".toml", ".json", ".ipynb", ".sql", ".md", ".txt"}


def k3repro(project: Path, *arguments: str) -> str:
    """Output of a command in the project's folder; it must succeed."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("K3REPRO_")}
    done = subprocess.run(
        [str(COMMAND), *arguments],
        cwd=project, env={**kept, "K3REPRO_SPECS": str(project / "specs")},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The study beside the site's theme and the pages that every site has; nothing of other studies."""
    root = tmp_path_factory.mktemp("third") / "project"
    shutil.copytree(STUDY, root)
    site = REPOSITORY / "site"
    shutil.copytree(site / "overrides", root / "site" / "overrides")
    for name in ("mkdocs.yml", "vocabulary.toml"):
        shutil.copyfile(site / name, root / "site" / name)
    (root / "site" / "figures").mkdir()
    shutil.copyfile(site / "queries" / "artifacts.sql", root / "site" / "queries" / "artifacts.sql")
    shutil.copyfile(site / "pages" / "artifacts.md", root / "site" / "pages" / "artifacts.md")
    front = "---\ntitle: Overview\ndescription: One study.\n---\n\n# Overview\n\n[A tiny lab](tiny.md)\n"
    (root / "site" / "pages" / "index.md").write_text(front, encoding="utf-8")
    return root


def test_a_third_study_is_built_and_audited(project: Path) -> None:
    k3repro(project, "run", "tiny")
    k3repro(project, "site", "build")
    page = (project / "site" / "build" / "tiny.html").read_text(encoding="utf-8")
    assert "Every number of the document" in page and "supported" in page and "independent" in page
    found = json.loads(k3repro(project, "audit", "site", "site/build", "--json"))
    assert found["ok"] and found["pages"] >= 3 and found["values"] > 4
    k3repro(project, "audit", "artifacts", "--recompute")
    assert "tiny-lab" in k3repro(project, "audit", "claims", "tiny-lab", "--source", "document.txt")
    assert "nothing to do" in k3repro(project, "run", "tiny") or "fresh" in k3repro(project, "run", "tiny")


def test_a_draft_and_its_skeleton_come_from_the_document(project: Path) -> None:
    names = ("--to", "draft.toml", "--skeleton", "draft.json")
    k3repro(project, "audit", "extract", "document.txt", "--id", "tiny-lab", *names)
    shipped = json.loads((STUDY / "artifacts/publications/skeletons/tiny-lab.json").read_text("utf-8"))
    drafted = json.loads((project / "draft.json").read_text("utf-8"))
    assert drafted["sha256"] == shipped["sha256"] and drafted["salt"] != shipped["salt"]
    assert "results.n7" in (project / "draft.toml").read_text("utf-8")


def test_a_study_is_data_only() -> None:
    kinds = {path.suffix for path in STUDY.rglob("*") if path.is_file()}
    assert kinds <= DATA, f"a study needed code: {kinds - DATA}"


def test_the_guide_names_what_there_is() -> None:
    """Every path and every command of the guide exists."""
    text = GUIDE.read_text(encoding="utf-8")
    for path in re.findall(r"`((?:tests|docs|src|site|pipelines|notebooks|artifacts)/[\w./-]+)`", text):
        assert (REPOSITORY / path).exists(), path
    for block in re.findall(r"```\n(.*?)```", text, re.DOTALL):
        for line in block.splitlines():
            words = line.split("#")[0].split()
            if words[:1] == ["k3repro"]:
                top = subprocess.run(
                    [str(COMMAND), *[w for w in words[1:3] if w.isalpha()], "--help"],
                    capture_output=True, text=True, timeout=120, check=False,
                )  # fmt: skip
                assert top.returncode == 0, line
