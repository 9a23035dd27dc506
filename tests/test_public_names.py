"""Each package has one sorted, complete `__all__`, and nobody imports private modules of another."""

from __future__ import annotations

import ast
import importlib
import re
import types
from pathlib import Path

import pytest

import k3repro

SOURCE = Path(k3repro.__file__).parent
FOLDERS = [
    path.parent for pattern in ("*/__init__.py", "studies/*/__init__.py") for path in SOURCE.glob(pattern)
]
PACKAGES = sorted(path.relative_to(SOURCE).as_posix() for path in FOLDERS if path.name != "cli")
EMPTY = {name for name in PACKAGES if len(list((SOURCE / name).glob("*.py"))) == 1}


@pytest.mark.parametrize("name", [name for name in PACKAGES if name not in EMPTY])
def test_all_is_sorted_and_complete(name: str) -> None:
    package = importlib.import_module(f"k3repro.{name.replace('/', '.')}")
    names = package.__all__
    # ruff's order: CONSTANTS, then Classes, then functions; each alphabetical.
    assert sorted(names) == sorted(set(names))
    assert names == sorted(names, key=_ruff_order)
    for item in names:
        assert hasattr(package, item), f"{name}.__all__ lists {item}, which does not exist"
    public = {key for key, value in vars(package).items() if not key.startswith("_") and _ours(value)}
    assert public <= set(names), f"not in {name}.__all__: {sorted(public - set(names))}"


def _ruff_order(name: str) -> tuple[int, str]:
    kind = 0 if name.isupper() and len(name) > 1 else 1 if name[:1].isupper() else 2
    return kind, name


def _ours(value: object) -> bool:
    module = getattr(value, "__module__", None)
    return (
        not isinstance(value, types.ModuleType) and isinstance(module, str) and module.startswith("k3repro")
    )


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_private_modules_stay_private(path: Path) -> None:
    parts = path.relative_to(SOURCE).parts
    package = parts[:2] if parts[0] == "studies" else parts[:1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("k3repro."):
            _, *where = node.module.split(".")
            private = any(part.startswith("_") for part in where)
            assert tuple(where[: len(package)]) == package or not private, (
                f"{path.name}:{node.lineno} imports {node.module}"
            )


OUTSIDE = sorted(
    path for folder in ("benchmarks", "notebooks", "docs") for path in (SOURCE.parents[1] / folder).rglob("*")
    if path.suffix in (".py", ".ipynb", ".md") and ".ipynb_checkpoints" not in path.parts
)  # fmt: skip
MODULES = {".".join(path.relative_to(SOURCE.parent).with_suffix("").parts) for path in SOURCE.rglob("*.py")}
MODULES |= {name.removesuffix(".__init__") for name in MODULES}
IMPORT = re.compile(r"^[ >\"]*from (k3repro[\w.]*) import (\([^)]*\)|[^\n\\#]*)", re.MULTILINE)


def missing(text: str) -> list[str]:
    """Names that a text imports from here and that do not exist."""
    found = []
    for module, names in IMPORT.findall(text):
        for name in re.findall(r"\w+(?= as |,|\)|\s|$)", names.replace("\\n", " ")):
            home = importlib.import_module(module)
            if not hasattr(home, name) and f"{module}.{name}" not in MODULES:
                found.append(f"{module}.{name}")
    return found


@pytest.mark.parametrize("path", OUTSIDE, ids=lambda path: path.name)
def test_what_is_imported_outside_the_package_exists(path: Path) -> None:
    assert missing(path.read_text(encoding="utf-8")) == []


def test_a_name_that_moved_away_is_seen() -> None:
    assert missing("from k3repro.errors import InputError, Nobody\n") == ["k3repro.errors.Nobody"]
