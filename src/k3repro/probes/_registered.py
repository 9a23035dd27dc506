"""The probes: every module of a package registered as `k3repro.probes` that has the parts of a probe.

Nothing lists them elsewhere, so a new probe is one new module.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from functools import cache
from types import ModuleType

from k3repro.errors import UsageError
from k3repro.registry import loaded

__all__ = ["PROBES", "probe_named"]

_PARTS = ("NAME", "SCHEMA", "PERFORMANCE", "Parameters", "plan", "procedure", "verdict")


class _Probes(Mapping[str, ModuleType]):
    """Probes by name, imported when first asked for: a probe imports what would import this."""

    def __getitem__(self, name: str) -> ModuleType:
        return _found()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_found())

    def __len__(self) -> int:
        return len(_found())


PROBES: Mapping[str, ModuleType] = _Probes()


def probe_named(name: str) -> ModuleType:
    """The module of a probe.

    Raises:
        UsageError: no such probe.
    """
    if name not in PROBES:
        raise UsageError(f"no probe {name!r}", fix=f"The probes are {', '.join(sorted(PROBES))}.")
    return PROBES[name]


@cache
def _found() -> dict[str, ModuleType]:
    modules = (module for _, place in loaded("k3repro.probes") for module in _modules(place))
    return dict(sorted((m.NAME, m) for m in modules if all(hasattr(m, part) for part in _PARTS)))


def _modules(place: ModuleType) -> Iterator[ModuleType]:
    """A module, or the public modules of a package and its packages."""
    yield place
    for info in pkgutil.iter_modules(getattr(place, "__path__", ())):
        if not info.name.startswith("_"):
            yield from _modules(importlib.import_module(f"{place.__name__}.{info.name}"))
