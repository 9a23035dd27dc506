"""Each package has one sorted, complete `__all__`, and nobody imports private modules of another."""

from __future__ import annotations

import ast
import importlib
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
