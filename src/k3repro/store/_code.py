"""The hash of a producer's code: its module and the k3repro modules it draws names from, normalised.

Comments, docstrings and layout do not count. A name imported through a package is followed to the module
that defines it, so that a change in a neighbour does not make everything stale. `k3repro.store`,
`k3repro.errors` and `k3repro.cli` are left out: they hold and show data, they do not compute it, and the
data digest is compared on top of this hash.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib.machinery import PathFinder
from pathlib import Path

ROOT = "k3repro"
_LEFT_OUT = ("k3repro.store", "k3repro.errors", "k3repro.cli")
_DEFINITIONS = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def code_hash(module: str) -> str:
    """The hash of `module` and its import closure inside k3repro; "" when its source cannot be found."""
    if _source(module) is None:
        return ""
    digest = hashlib.sha256()
    for name in code_closure(module):
        source = _source(name)
        assert source is not None
        digest.update(f"{name} {_read(name, source).digest}\n".encode())
    return digest.hexdigest()


def code_closure(module: str) -> list[str]:
    """The modules that `code_hash` covers, sorted."""
    found: set[str] = set()
    drawn: set[tuple[str, str]] = set()  # names that were followed already
    open_ = [module]
    while open_:
        name = open_.pop()
        if name in found or (name != module and _left_out(name)) or (source := _source(name)) is None:
            continue
        found.add(name)
        names = _read(name, source).draws - drawn
        drawn |= names
        open_.extend(_definer(package, item) if item else package for package, item in names)
    return sorted(found)


def read_code() -> None:
    """Parse every module of k3repro, so that processes forked from this one need not."""
    root = Path(__file__).parents[1]
    for path in sorted(root.rglob("*.py")):
        parts = [ROOT, *path.relative_to(root).with_suffix("").parts]
        _read(".".join(parts[:-1] if parts[-1] == "__init__" else parts), path)


def _left_out(module: str) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in _LEFT_OUT)


def _source(module: str) -> Path | None:
    """The file of a module, found without importing anything."""
    if module == ROOT or module.startswith(ROOT + "."):
        base = Path(__file__).parents[1].joinpath(*module.split(".")[1:])
    else:
        top, *rest = module.split(".")
        spec = PathFinder.find_spec(top)
        if spec is None or spec.origin is None:
            return None
        base = (
            Path(spec.origin).parent.joinpath(*rest)
            if spec.submodule_search_locations
            else Path(spec.origin).with_suffix("")
        )
    candidates = (base.with_suffix(".py"), base / "__init__.py")
    return next((path for path in candidates if path.is_file()), None)


@dataclass(frozen=True, slots=True)
class _Module:
    """What a source file says: the hash of its tree without docstrings and positions, what it draws from
    k3repro (package and name, or a module and no name), and where the names that it passes on come from.
    """

    digest: str
    draws: frozenset[tuple[str, str]]
    passes_on: dict[str, tuple[str, str]]


def _read(module: str, source: Path) -> _Module:
    return _parsed(module, str(source), source.stat().st_mtime_ns)


@lru_cache(maxsize=2048)
def _parsed(module: str, path: str, _modified: int) -> _Module:
    source = Path(path)
    tree = ast.parse(source.read_text(encoding="utf-8"))
    draws: set[tuple[str, str]] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            draws |= {(alias.name, "") for alias in node.names if alias.name.split(".")[0] == ROOT}
        elif isinstance(node, ast.ImportFrom) and (package := _absolute(module, source, node)):
            draws |= {(package, alias.name) for alias in node.names}
    passes_on: dict[str, tuple[str, str]] = {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                origin = _absolute(module, source, node), alias.name
                passes_on.setdefault(alias.asname or alias.name, origin)
    digest = hashlib.sha256("".join(_tokens(tree)).encode()).hexdigest()
    return _Module(digest, frozenset(draws), passes_on)


def _tokens(node: ast.AST) -> Iterator[str]:
    """The tree as text. Absent fields are left out: newer Pythons add some, and the hash must not change."""
    yield f"({type(node).__name__}"
    for name, value in ast.iter_fields(node):
        if isinstance(value, ast.AST):
            yield f" {name}"
            yield from _tokens(value)
        elif isinstance(value, list) and value:
            items = (
                value[1:]
                if isinstance(node, _DEFINITIONS) and name == "body" and _is_docstring(value[0])
                else value
            )
            yield f" {name}["
            for item in items:
                yield from _tokens(item) if isinstance(item, ast.AST) else (repr(item),)
            yield "]"
        elif value is not None and value != []:
            yield f" {name}={value!r}"
    yield ")"


def _is_docstring(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _absolute(module: str, source: Path, node: ast.ImportFrom) -> str:
    """The package of a from-import; "" when it lies outside k3repro."""
    package = node.module or ""
    if node.level:
        parts = module.split(".") if source.name == "__init__.py" else module.split(".")[:-1]
        package = ".".join([*parts[: len(parts) - node.level + 1], *filter(None, [node.module])])
    return package if package.split(".")[0] == ROOT else ""


def _definer(package: str, name: str) -> str:
    """The module that defines `name` of `package`: a submodule, the origin of a re-export, or the package."""
    if _source(f"{package}.{name}") is not None:
        return f"{package}.{name}"
    source = _source(package)
    if source is None or source.name != "__init__.py" or name == "*":
        return package
    origin, original = _read(package, source).passes_on.get(name, ("", ""))
    return _definer(origin, original) if origin and origin != package else package
