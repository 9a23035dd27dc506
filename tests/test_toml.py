"""Whatever is wrong with a TOML file that somebody wrote, its reader says so: never a traceback."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from k3repro.bringup import load_cluster, load_recipe
from k3repro.claims import read_ledger
from k3repro.errors import UsageError
from k3repro.pipeline import load_pipeline
from k3repro.publications import read_publication
from k3repro.report._allowlist import read_entries
from k3repro.spec.documents import parse_document

READERS: dict[str, Callable[[Path], Any]] = {
    "cluster": load_cluster,
    "recipe": lambda path: load_recipe(str(path)),
    "ledger": read_ledger,
    "pipeline": load_pipeline,
    "publication": read_publication,
    "allow-list": lambda path: read_entries(path, "name", ("term", "reason")),
    "spec": lambda path: parse_document(path.read_bytes().decode("latin-1"), path.name),
}
WRONG = {
    "not TOML": b"name = ",
    "not UTF-8": b'name = "\xff\xfe',
    "nested deeper than the parser goes": b"a = " + b"[" * 5000,
    "a key twice": b"a = 1\na = 2\n",
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("reader", READERS)
def test_a_reader_refuses_what_is_no_toml(reader: str, wrong: str, tmp_path: Path) -> None:
    path = tmp_path / "file.toml"
    path.write_bytes(WRONG[wrong])
    with pytest.raises(UsageError) as caught:
        READERS[reader](path)
    assert "file.toml" in caught.value.where


def test_nobody_parses_toml_on_their_own() -> None:
    """The claims ledger gives the same findings as errors of its own, with a rule."""
    source = Path(__file__).parents[1] / "src"
    users = {path.stem for path in source.rglob("*.py") if "import tomllib" in path.read_text("utf-8")}
    assert users == {"toml", "_ledger"}
