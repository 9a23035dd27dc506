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
        digest.update(f"{name} {_normalised(str(source), source.stat().st_mtime_ns)}\n".encode())
    return digest.hexdigest()


def code_closure(module: str) -> list[str]:
    """The modules that `code_hash` covers, sorted."""
    found: set[str] = set()
    open_ = [module]
    while open_:
        name = open_.pop()
        if name in found or (name != module and _left_out(name)) or _source(name) is None:
            continue
        found.add(name)
        open_.extend(_imports(name))
    return sorted(found)


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


@lru_cache(maxsize=1024)
def _tree(path: str, _modified: int) -> ast.Module:
    return ast.parse(Path(path).read_text(encoding="utf-8"))


@lru_cache(maxsize=1024)
def _normalised(path: str, modified: int) -> str:
    """The hash of a module's syntax tree without docstrings and positions."""
    return hashlib.sha256("".join(_tokens(_tree(path, modified))).encode()).hexdigest()


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


def _imports(module: str) -> Iterator[str]:
    """The k3repro modules that a module draws names from."""
    source = _source(module)
    assert source is not None
    for node in ast.walk(_tree(str(source), source.stat().st_mtime_ns)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == ROOT)
        elif isinstance(node, ast.ImportFrom) and (package := _absolute(module, source, node)):
            yield from (_definer(package, alias.name) for alias in node.names)


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
    for node in _tree(str(source), source.stat().st_mtime_ns).body:
        if isinstance(node, ast.ImportFrom) and any((a.asname or a.name) == name for a in node.names):
            origin = _absolute(package, source, node)
            original = next(a.name for a in node.names if (a.asname or a.name) == name)
            return _definer(origin, original) if origin and origin != package else package
    return package
