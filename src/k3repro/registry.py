"""Entry points: how studies, probes, specs and targets register, ours and those of any installed package.

| group | name -> value | who reads it |
| --- | --- | --- |
| `k3repro.studies` | study -> a `Study` | `store` (whose derivations audit may run) |
| `k3repro.commands` | `group.command` -> a click command | `cli` |
| `k3repro.probes` | any -> a package or module of probes | `probes` |
| `k3repro.specs` | any -> a package whose folder holds `models/`, `platforms/`, `layouts/` | `spec` |
| `k3repro.targets` | scheme -> a module with `VirtualDriver`, `Cluster`, `platform` | `client`, `probes` |
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from k3repro.errors import MachineError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["Study", "entries", "load", "loaded", "package_folder", "producer_packages", "studies"]


@dataclass(frozen=True, slots=True)
class Study:
    """One study: its name, which its folders under `notebooks/`, `site/*` and `publications/` carry, and the
    package whose derivations `audit artifacts --recompute` may run.
    """

    name: str
    title: str
    package: str


@cache
def entries(group: str) -> dict[str, EntryPoint]:
    """Entry points of a group by name, sorted; nothing is imported."""
    from importlib.metadata import entry_points  # with it comes the parser of e-mail

    found = entry_points(group=group)
    return {entry.name: entry for entry in sorted(found, key=lambda entry: entry.name)}


def load(group: str, name: str) -> Any:
    """What an entry point names.

    Raises:
        MachineError: no such entry point, or its package does not import.
    """
    entry = entries(group).get(name)
    if entry is None:
        known = ", ".join(entries(group)) or "none"
        raise MachineError(
            f"nothing registers {name!r} as {group} (known: {known})",
            fix="Install again what provides it; for this repository: make report, or pip install -e .",
        )
    try:
        return entry.load()
    except (ImportError, AttributeError) as error:
        raise MachineError(f"{group} {name!r} does not load: {error}", where=entry.value) from error


def loaded(group: str) -> Iterator[tuple[str, Any]]:
    """Name and object of every entry point of a group, in order of names."""
    return ((name, load(group, name)) for name in entries(group))


def studies() -> dict[str, Study]:
    """The registered studies by name."""
    return {study.name: study for _, study in loaded("k3repro.studies")}


@cache
def producer_packages() -> tuple[str, ...]:
    """Top-level packages that may hold producers: this one and those that register a study. No study is
    imported to find out.
    """
    return tuple(sorted({"k3repro", *(entry.module.partition(".")[0] for entry in _studies())}))


def _studies() -> Iterator[EntryPoint]:
    yield from entries("k3repro.studies").values()


def package_folder(entry: EntryPoint) -> Path:
    """The folder of the package an entry point names, found without importing the package itself.

    Raises:
        MachineError: it is not installed, or is no package.
    """
    spec = find_spec(entry.module)
    if spec is None or not spec.submodule_search_locations:
        raise MachineError(f"{entry.value} is no installed package", where=entry.name)
    return Path(next(iter(spec.submodule_search_locations)))
