"""A tiny project for tests: pipelines/, notebooks/ copied from tests/notebooks, and an empty store."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from k3repro.pipeline import InlineExecutor, PipelineResult, run_pipeline
from k3repro.store import Column, Header, Schema, Store, Table

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"


class Project:
    """A folder with pipelines/t.toml; `stage(...)` adds a stage, `run()` runs it inline."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.file = root / "pipelines" / "t.toml"
        self.file.parent.mkdir(parents=True, exist_ok=True)
        if not self.file.exists():
            self.file.write_text('[pipeline]\nname = "t"\n')
        (root / "notebooks").mkdir(exist_ok=True)
        self.store = Store(root / "artifacts")

    @classmethod
    def at(cls, root: Path) -> Project:
        """The project that already lies in `root`."""
        return cls(root)

    def notebook(self, name: str) -> Path:
        path = self.root / "notebooks" / f"{name}.ipynb"
        if not path.exists():
            shutil.copy(NOTEBOOKS / f"{name}.ipynb", path)
        return path

    def stage(self, name: str, notebook: str = "", **keys: str) -> None:
        """Add a stage; values are TOML text. Without `seals` it seals tiny@twin:NAME."""
        notebook = notebook or name
        self.notebook(notebook)
        if "seals" not in keys and "view" not in keys:
            keys.setdefault("parameters", f'{{ SUBJECT = "twin:{name}" }}')
            keys["seals"] = '["tiny@{SUBJECT}"]'
        lines = [f"{key} = {value}" for key, value in keys.items()]
        head = ["", "[[stage]]", f'name = "{name}"', f'notebook = "notebooks/{notebook}.ipynb"']
        self.file.write_text(self.file.read_text() + "\n".join([*head, *lines]) + "\n")

    def replace(self, old: str, new: str) -> None:
        text = self.file.read_text()
        assert old in text
        self.file.write_text(text.replace(old, new))

    def run(self, **options: Any) -> PipelineResult:
        options.setdefault("executor", InlineExecutor())
        return run_pipeline(self.file, store=self.store, **options)

    def executed(self, name: str) -> Path:
        return self.root / "notebooks" / ".executed" / "t" / f"{name}.ipynb"

    def seal(self, subject: str, values: Sequence[float], serve: dict[str, Any] | None = None) -> str:
        """Seal tiny@subject with these values; its seal."""
        schema = Schema((Table("rows", (Column("x", "DOUBLE", "s"),), key=("x",)),))
        run = self.store.begin(Header("tiny", subject, "probe", "tests:tiny", {"n": len(values)}), schema)
        run.serve.update(serve or {})
        run.commit("only", {"rows": [{"x": value} for value in values]})
        return str(run.seal().seal)
