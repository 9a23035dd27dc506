"""docs/new-study.md by its commands: a third study copied in and installed, then built and audited."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).parents[1]
STUDY = REPOSITORY / "tests" / "new_study"
FILES = sorted(
    path.relative_to(STUDY) for path in STUDY.rglob("*") if path.is_file() and path.suffix != ".pyc"
)
GUIDE = REPOSITORY / "docs" / "new-study.md"
BIN = Path(sys.executable).parent
FOLDERS = ("artifacts/publications", "notebooks", "site/figures", "site/pages", "site/queries")


def k3repro(project: Path, *arguments: str) -> str:
    """Output of a command in the project's folder, where the study is installed; it must succeed."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("K3REPRO_")}
    done = subprocess.run(
        [str(BIN / "k3repro"), *arguments],
        cwd=project, env={**kept, "PYTHONPATH": str(project.parent / "installed")},
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What every site has, then the study's folders copied over it and its package installed beside ours."""
    root = tmp_path_factory.mktemp("third") / "project"
    site = REPOSITORY / "site"
    for name in ("mkdocs.yml", "vocabulary.toml", "queries/artifacts.sql", "pages/artifacts.md"):
        (root / "site" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(site / name, root / "site" / name)
    front = "---\ntitle: Overview\ndescription: One study.\n---\n\n# Overview\n\n[A tiny lab](tiny.md)\n"
    (root / "site" / "pages" / "index.md").write_text(front, encoding="utf-8")
    for name in FILES:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        assert not (root / name).exists(), f"{name} is another study's"
        shutil.copyfile(STUDY / name, root / name)
    install = [BIN / "uv", "pip", "install", "--offline", "--quiet", "--no-deps", "--no-build-isolation"]
    target = ["--python", sys.executable, "--target", root.parent / "installed", root]
    subprocess.run([str(word) for word in (*install, *target)], check=True, timeout=600)
    shutil.rmtree(root / "build", ignore_errors=True)
    return root


def test_a_third_study_is_built_and_audited(project: Path) -> None:
    k3repro(project, "run", "tiny-lab")
    k3repro(project, "site", "build")
    page = (project / "site" / "build" / "tiny.html").read_text(encoding="utf-8")
    assert "Every number of the document" in page and "supported" in page and "independent" in page
    assert "How much of the bound" in page
    found = json.loads(k3repro(project, "audit", "site", "site/build", "--json"))
    assert found["ok"] and found["pages"] >= 3 and found["values"] > 4
    k3repro(project, "audit", "artifacts", "--recompute")
    assert "tiny-lab" in k3repro(project, "audit", "claims", "tiny-lab", "--source", "document.txt")
    assert "tiny-dense" in k3repro(
        project, "budget", "--model", "Tiny-Dense", "--platform", "mi300x", "--json"
    )
    again = k3repro(project, "run", "tiny-lab")
    assert "nothing to do" in again or "fresh" in again


def test_a_draft_and_its_skeleton_come_from_the_document(project: Path) -> None:
    names = ("--to", "draft.toml", "--skeleton", "draft.json")
    k3repro(project, "audit", "extract", "document.txt", "--id", "tiny-lab", *names)
    shipped = json.loads(
        (STUDY / "artifacts/publications/tiny_lab/skeletons/tiny-lab.json").read_text("utf-8")
    )
    drafted = json.loads((project / "draft.json").read_text("utf-8"))
    assert drafted["sha256"] == shipped["sha256"] and drafted["salt"] != shipped["salt"]
    assert "results.n7" in (project / "draft.toml").read_text("utf-8")


@pytest.mark.parametrize("name", FILES, ids=str)
def test_a_study_stays_in_its_folders(name: Path) -> None:
    """Copied into the repository it overwrites nothing; each file stands in a folder of the study."""
    own = any(name.as_posix().startswith(f"{folder}/tiny_lab/") for folder in FOLDERS)
    alone = name.parts[0] == "tiny_lab" or name.as_posix() in {
        "pipelines/tiny-lab.toml", "pyproject.toml", "document.txt",
    }  # fmt: skip
    assert own or alone, f"{name} is no folder of the study"
    assert name.name == "pyproject.toml" or not (REPOSITORY / name).exists()


def test_the_guide_names_what_there_is() -> None:
    """Every path and every command of the guide exists."""
    text = GUIDE.read_text(encoding="utf-8")
    for path in re.findall(r"`((?:tests|docs|src|site|pipelines|notebooks|artifacts|STUDY)/[\w./-]+)`", text):
        named = path.replace("STUDY", "tiny_lab").replace("ID", "tiny-lab")
        assert (REPOSITORY / named).exists() or (STUDY / named).exists() or "figures" in named, path
    for block in re.findall(r"```\n(.*?)```", text, re.DOTALL):
        for line in block.splitlines():
            words = line.split("#")[0].split()
            if words[:1] == ["k3repro"]:
                top = subprocess.run(
                    [str(BIN / "k3repro"), *[w for w in words[1:3] if w.isalpha()], "--help"],
                    capture_output=True, text=True, timeout=600, check=False,
                )  # fmt: skip
                assert top.returncode == 0, line
