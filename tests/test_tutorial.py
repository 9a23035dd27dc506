"""docs/tutorial.md, run as it stands: its commands, its files, and the refusal it promises."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "tutorial.md").read_text("utf-8")
BIN = Path(sys.executable).parent


def run(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    words = shlex.split(line)
    command = [str(BIN / words[0]) if words[0] == "k3repro" else words[0], *words[1:]]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, check=False)


@pytest.mark.slow
def test_every_command_of_the_tutorial_succeeds_and_a_typed_number_is_refused(tmp_path: Path) -> None:
    files = dict(re.findall(r"^`(site/\S+)`:\n\n```\w+\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL))
    assert set(files) == {"site/mkdocs.yml", "site/queries/first-token.sql", "site/pages/index.md"}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    lines = [line for kind, block in blocks if not kind for line in block.splitlines()]
    assert len(lines) >= 7
    for line in lines:
        done = run(line, tmp_path)
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    page = tmp_path / "site/pages/index.md"
    page.write_text(page.read_text("utf-8") + "\nIt took 1.23 s.\n", "utf-8")
    refused = run(lines[-2], tmp_path)
    assert refused.returncode == 1 and "1.23" in refused.stderr
