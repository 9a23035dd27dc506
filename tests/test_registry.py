"""What registers itself by entry point, and that nothing else is imported by a string."""

from __future__ import annotations

import ast
import importlib
import tomllib
from pathlib import Path

import pytest

import k3repro
from k3repro import registry
from k3repro.errors import MachineError, UsageError
from k3repro.probes import PROBES, probe_named
from k3repro.store import current_producer
from k3repro.store._derive import installed_producer
from k3repro.store._moved import _MOVED

SOURCE = Path(k3repro.__file__).parent
IMPORTERS = {"import_module", "__import__", "find_spec"}
# Names that come as data: a producer (found, hashed), an entry point, a module beside others, a sub-command.
FROM_DATA = {
    "store/_derive.py", "store/_code.py", "registry.py", "probes/_registered.py", "cli/__init__.py",
}  # fmt: skip


def imported_by_string(tree: ast.AST) -> list[ast.expr]:
    """The first argument of every call that imports what a string names."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.args]
    name = {id(call): getattr(call.func, "attr", getattr(call.func, "id", "")) for call in calls}
    return [call.args[0] for call in calls if name[id(call)] in IMPORTERS]


def ours(argument: ast.expr) -> bool:
    """Whether an argument may name a module of this tree; a literal of another package does not."""
    known = isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    return not known or argument.value.startswith(("k3repro", "."))  # type: ignore[attr-defined,union-attr]


def test_nothing_in_the_tree_is_imported_by_a_string() -> None:
    found = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if any(map(ours, imported_by_string(ast.parse(path.read_text("utf-8")))))
    }
    assert found <= FROM_DATA


def test_an_import_by_string_would_be_seen() -> None:
    tree = ast.parse("import importlib\nx = import_module('k3repro.twin')\ny = import_module('torch')")
    assert [ours(argument) for argument in imported_by_string(tree)] == [True, False]


def test_every_study_names_its_own_package_and_its_folders() -> None:
    studies = registry.studies()
    assert set(studies) == {path.parent.name for path in SOURCE.glob("studies/*/__init__.py")}
    for name, study in studies.items():
        assert study.name == name and study.package == f"k3repro.studies.{name}" and study.title


def test_every_registered_thing_loads() -> None:
    project = tomllib.loads((SOURCE.parents[1] / "pyproject.toml").read_text("utf-8"))["project"]
    groups = project["entry-points"]
    assert {"k3repro.studies", "k3repro.commands", "k3repro.probes", "k3repro.targets"} <= set(groups)
    for group, names in groups.items():
        assert set(names) <= {name for name, _ in registry.loaded(group)}


def test_what_nobody_registers_says_how_to_install_it() -> None:
    with pytest.raises(MachineError, match="nothing registers 'nowhere'") as caught:
        registry.load("k3repro.targets", "nowhere")
    assert "Install again" in caught.value.fix


def test_every_moved_producer_is_where_the_table_says_and_its_old_name_is_free() -> None:
    for old, new in _MOVED.items():
        importlib.import_module(new)
        assert not (SOURCE / Path(*old.split(".")[1:])).with_suffix(".py").exists()
    assert (
        current_producer("k3repro.twin.calibration:calibrate")
        == "k3repro.studies.kimi_k3.calibration:calibrate"
    )
    assert current_producer("k3repro.probes.slots:procedure") == "k3repro.probes.slots:procedure"
    assert installed_producer("k3repro.twin.calibration:calibrate").__name__ == "calibrate"


def test_probes_are_found_by_what_they_have() -> None:
    assert {"needle-gate", "agentic", "osl-sweep"} <= set(PROBES) and "detection-matrix" not in PROBES
    with pytest.raises(UsageError, match="no probe"):
        probe_named("nothing")
