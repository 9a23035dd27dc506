"""Public functions say what a caller needs: what is raised, the shape of an array, the unit of a number."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import k3repro
from k3repro import errors
from k3repro.errors import InputError

SOURCE = Path(k3repro.__file__).parent
FOLDERS = [path.parent for path in (*SOURCE.glob("*/__init__.py"), *SOURCE.glob("studies/*/__init__.py"))]
PACKAGES = sorted(
    path.relative_to(SOURCE).as_posix().replace("/", ".") for path in FOLDERS if path.name != "cli"
)
KINDS = set(errors.__all__)
UNITS = re.compile(
    r"tokens?|bytes?|\bunit\b|seconds?|\b(ns|µs|ms|s|GiB|GB|dollars?|\$|%)\b|requests?|blocks?|GPUs?|nodes?|users?|slots?|"
    r"ranks?|levels?|rungs?|times|number|share|ratio|fraction|probabilit|quantile|seed|port|limit|hours?|minutes?|"
    r"digits?|decimals?|rate|count|index|position|size|points?|factor|parameters?|values?|degrees|depth|version",
    re.IGNORECASE,
)
ARRAYS = re.compile(r"NDArray|ndarray|Bytes\b|Floats\b")
SHAPE = re.compile(r"\[[^\]]*\.\.\.|\.\.\., |\bshape\b|\[[a-zA-Z]\w*(, ?[\w/]+)*\]")


def functions(package: str) -> Iterator[tuple[str, Callable[..., Any]]]:
    module = importlib.import_module(f"k3repro.{package}")
    for name in getattr(module, "__all__", ()):
        value = getattr(module, name)
        if inspect.isfunction(value) and value.__module__.startswith("k3repro"):
            yield name, value


def raised(function: Callable[..., Any]) -> set[str]:
    """Errors of ours that the function's own body raises."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function))))
    calls = [
        node.exc.func
        for node in ast.walk(tree)
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)
    ]
    return {call.id for call in calls if isinstance(call, ast.Name)} & KINDS


def lacks(function: Callable[..., Any]) -> list[str]:
    """What a docstring leaves out."""
    text = inspect.getdoc(function) or ""
    if not text:
        return ["docstring"]
    notes = [str(note) for note in inspect.get_annotations(function).values()]
    numbers = any(re.search(r"\b(int|float)\b", note) for note in notes)
    names = " ".join((function.__name__, *inspect.signature(function).parameters)).replace("_", " ")
    said = [f"raises {name}" for name in sorted(raised(function)) if name not in text]
    said += ["unit"] * bool(numbers and not UNITS.search(f"{text} {names}"))
    return said + ["shape"] * bool(any(map(ARRAYS.search, notes)) and not SHAPE.search(text))


@pytest.mark.parametrize("package", PACKAGES)
def test_public_functions_say_what_they_raise_take_and_give(package: str) -> None:
    missing = {name: said for name, function in functions(package) if (said := lacks(function))}
    assert missing == {}


def test_what_is_left_out_would_be_seen() -> None:
    def wait(how: int) -> float:
        """Wait."""
        raise InputError("no")

    assert lacks(wait) == ["raises InputError", "unit"]
