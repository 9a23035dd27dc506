"""No producer of a derivation holds a figure that a publication prints: artifacts and specs do."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
# Settings that are nobody's finding: timeouts and lengths that a producer asks about.
SETTINGS = {
    **dict.fromkeys((300.0, 600.0, 900.0, 1200.0, 1800.0, 2400.0, 3600.0, 7200.0), "timeouts in seconds"),
    1280.0: "tokens of a request of the sweep, prompt and reply",
}


def digits(value: float) -> int:
    """Significant digits of a number as one would print it."""
    return len(f"{value:.12g}".partition("e")[0].replace(".", "").replace("-", "").strip("0"))


def figures(value: object) -> Iterator[float]:
    """Numbers of three and more digits in the cells of a transcription."""
    if isinstance(value, dict):
        for item in value.values():
            yield from figures(item)
    elif isinstance(value, list):
        for item in value:
            yield from figures(item)
    elif isinstance(value, str):
        for text in re.findall(r"\d[\d,]*(?:\.\d+)?", value):
            number = float(text.replace(",", ""))
            if digits(number) >= 3:
                yield number


def printed() -> set[float]:
    rows = [
        table["rows"]
        for path in (ROOT / "artifacts" / "publications").glob("*/*.toml")
        for table in tomllib.loads(path.read_text()).get("table", [])
    ]
    return set(figures(rows))


def producers() -> Iterator[Path]:
    for path in sorted((ROOT / "src" / "k3repro").rglob("*.py")):
        if "@derivation(" in path.read_text():
            yield path


def written(path: Path) -> Iterator[tuple[int, float]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and type(node.value) in (int, float):
            yield node.lineno, float(node.value)


def sizes() -> set[tuple[float, str]]:
    """Sizes that a publication prints, in cells and claims: (28, "GIB")."""
    folder = ROOT / "artifacts" / "publications"
    text = "".join(path.read_text() for path in folder.glob("*/*.toml"))
    found = re.findall(r"([\d.]+) (GiB|GB|MiB|TiB)", text)
    claims = "".join(path.read_text() for path in folder.glob("*/claims/*.toml"))
    found += re.findall(r'printed = "([\d.]+)", unit = "(GiB|GB|MiB|TiB)', claims)
    return {(float(number), unit.upper()) for number, unit in found if number.strip(".")}


def sized(path: Path) -> Iterator[tuple[int, float, str]]:
    """Numbers times a unit of memory: `28 * GIB`."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            sides = (node.left, node.right)
            numbers = [
                x.value for x in sides if isinstance(x, ast.Constant) and type(x.value) in (int, float)
            ]
            units = [x.id for x in sides if isinstance(x, ast.Name)]
            if numbers and units:
                yield node.lineno, float(numbers[0]), units[0].strip("_")


def test_no_module_holds_a_printed_size() -> None:
    known = sizes()
    assert {(28.0, "GIB"), (16.0, "GIB"), (13.0, "GB")} <= known
    found = [
        f"{path.name}:{line}: {number:g} * {unit}"
        for path in sorted((ROOT / "src" / "k3repro").rglob("*.py"))
        for line, number, unit in sized(path)
        if number > 1 and (number, unit) in known
    ]
    assert found == []


def test_a_typed_size_would_be_found(tmp_path: Path) -> None:
    path = tmp_path / "made.py"
    path.write_text("OVERHEAD = 28 * GIB\n")
    assert list(sized(path)) == [(1, 28.0, "GIB")]


def constants(paths: Iterator[Path]) -> list[str]:
    known = printed() - set(SETTINGS)
    powers = {float(base**n) for base in (2, 10) for n in range(40)}
    return [
        f"{path.name}:{line}: {value:g}"
        for path in paths
        for line, value in written(path)
        if value in known - powers
    ]


def test_no_producer_holds_a_printed_figure() -> None:
    assert constants(producers()) == []


def test_a_constant_of_a_publication_would_be_found(tmp_path: Path) -> None:
    assert 1235.0 in printed() and 14098.0 in printed()
    path = tmp_path / "made.py"
    path.write_text("RATE = 1235\nROOM = 14_098\nSECONDS = 3600\nROWS = 10_000\n")
    assert constants(iter([path])) == ["made.py:1: 1235", "made.py:2: 14098"]
