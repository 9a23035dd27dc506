"""No circle of imports between files: on import or inside a function counts, `if TYPE_CHECKING` does not."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"


def imported(tree: ast.AST) -> Iterator[ast.ImportFrom]:
    """From-imports outside `if TYPE_CHECKING:`; the project has no other kind of its own modules."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ImportFrom):
            yield node
        elif not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            yield from imported(node)


class Modules:
    """Every module below a folder, by dotted name."""

    def __init__(self, root: Path) -> None:
        self.trees: dict[str, ast.Module] = {}
        self.packages: set[str] = set()
        for path in root.rglob("*.py"):
            name = ".".join(path.relative_to(root).with_suffix("").parts)
            if path.name == "__init__.py":
                name = name.removesuffix(".__init__")
                self.packages.add(name)
            self.trees[name] = ast.parse(path.read_text(encoding="utf-8"))

    def definer(self, module: str, name: str) -> str:
        """The module that `from module import name` needs: a package passes on what it re-exports."""
        if f"{module}.{name}" in self.trees:
            return f"{module}.{name}"
        if module in self.packages:
            for node in self.trees[module].body:
                if isinstance(node, ast.ImportFrom) and node.module:
                    for alias in node.names:
                        if (alias.asname or alias.name) == name and node.module != module:
                            return self.definer(node.module, alias.name)
        return module

    def graph(self) -> dict[str, set[str]]:
        """Which module needs which."""
        found: dict[str, set[str]] = {}
        for name, tree in self.trees.items():
            needs = {
                self.definer(node.module, alias.name)
                for node in imported(tree)
                if node.module
                for alias in node.names
            }
            found[name] = (needs & self.trees.keys()) - {name}
        return found


def circle(graph: Mapping[str, set[str]]) -> list[str]:
    """A circle among them; empty when there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return [str(name) for name in error.args[1]]
    return []


def test_no_file_needs_itself() -> None:
    modules = Modules(SOURCE)
    assert len(modules.trees) > 400
    assert circle(modules.graph()) == []


@pytest.mark.parametrize("late", [False, True], ids=["on import", "inside a function"])
def test_a_circle_through_a_package_is_found(tmp_path: Path, late: bool) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "__init__.py").write_text("from p.a import A\nfrom p.b import B\n")
    (tmp_path / "p" / "b.py").write_text("from p.a import A\nB = A\n")
    body = "from p import B\n"
    (tmp_path / "p" / "a.py").write_text(f"A = 1\ndef f():\n    {body}" if late else f"{body}A = 1\n")
    assert set(circle(Modules(tmp_path).graph())) == {"p.a", "p.b"}
    (tmp_path / "p" / "a.py").write_text(f"if TYPE_CHECKING:\n    {body}A = 1\n")
    assert circle(Modules(tmp_path).graph()) == []
