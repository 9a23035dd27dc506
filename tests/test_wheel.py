"""The wheel: all of the project that an installation needs is in it, and works without the checkout."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
SHIPPED = ("notebooks", "pipelines", "site/pages", "site/queries", "site/figures")
ENDINGS = {".ipynb", ".toml", ".sql", ".py", ".md", ".html"}


def test_every_notebook_pipeline_page_query_and_figure_is_listed() -> None:
    """Globs of setuptools' data-files do not descend: a new folder has to be added."""
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]["data-files"]
    covered = {path for globs in listed.values() for pattern in globs for path in ROOT.glob(pattern)}
    wanted = {
        path for place in SHIPPED for path in (ROOT / place).rglob("*")
        if path.suffix in ENDINGS and ".executed" not in path.parts and "__pycache__" not in path.parts
    }  # fmt: skip
    assert not wanted - covered, f"pyproject.toml: data-files lack {sorted(map(str, wanted - covered))}"
    for target, patterns in listed.items():
        for pattern in patterns:
            assert target.removeprefix("share/k3repro/") == str(Path(pattern).parent)


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel's contents as pip lays them out; third-party packages come from this venv."""
    place = tmp_path_factory.mktemp("wheel")
    source = place / "source"
    ignore = shutil.ignore_patterns(
        ".venv", ".git", "build", "*.egg-info", ".executed", "__pycache__", "artifacts"
    )
    shutil.copytree(ROOT, source, ignore=ignore)
    command = [
        sys.executable,
        "-c",
        "from setuptools.build_meta import build_wheel; print(build_wheel('..'))",
    ]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=True)
    wheel = place / done.stdout.strip().splitlines()[-1]
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(place / "site-packages")
    data = next((place / "site-packages").glob("*.data")) / "data"
    shutil.move(data, place / "prefix")
    shutil.rmtree(source)
    return place


def k3repro(bare: Path, *arguments: str, cwd: Path) -> str:
    """The command from the wheel, in a folder that is no clone, with `sys.prefix` where its data lie."""
    code = (
        "import sys; sys.prefix = sys.argv.pop(1); import k3repro; from k3repro.cli import main;"
        "assert 'site-packages' in k3repro.__file__, k3repro.__file__; main(sys.argv[1:])"
    )
    environment = {key: value for key, value in os.environ.items() if not key.startswith("K3REPRO")}
    environment |= {"PYTHONPATH": str(bare / "site-packages"), "HOME": str(cwd), "PYTHONSAFEPATH": "1"}
    command = [sys.executable, "-c", code, str(bare / "prefix"), *arguments]
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_works_without_the_checkout(bare: Path, tmp_path: Path) -> None:
    def run(*arguments: str) -> str:
        return k3repro(bare, *arguments, cwd=tmp_path)

    assert json.loads(run("budget", "--platform", "mi325x", "--json"))["tensors"]
    assert json.loads(run("capacity", "nmax", "--platform", "mi325x", "--context", "200K", "--json"))["binds"]
    gate = run("probe", "needle-gate", "--target", "twin:mi325x", "--context", "1K", "--concurrency", "1,4",
               "--artifacts", "here", "--json")  # fmt: skip
    assert json.loads(gate)["verdict"]["ok"]
    assert "needle-gate" in run("artifacts", "list", "--artifacts", "here")
    assert json.loads(run("audit", "artifacts", "--artifacts", "here", "--json"))["ok"]
    assert json.loads(run("bringup", "plan", "--cluster", "mi325x-thor2", "--json"))
    assert json.loads(run("lab", "--json"))["command"][-1].endswith("k3repro-notebooks/notebooks")
    router = run("run", "router", "--target", "twin:mi325x", "--explain", "--json")
    assert json.loads(router)["steps"]
    assert "_K3REPRO_COMPLETE" in run("completion", "bash")
