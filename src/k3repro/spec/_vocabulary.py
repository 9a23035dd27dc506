"""Identifiers made of letters and digits that are names, not numbers: what the report's gate lets pass."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from k3repro.spec._catalog import models
from k3repro.spec._layout import layouts
from k3repro.spec._platform import platforms
from k3repro.toml import shipped_toml


@cache
def vocabulary() -> frozenset[str]:
    """All such identifiers, as pages spell them: model and platform names, formats, layouts, fabrics."""
    return frozenset(term for term in _terms() if any(character.isdigit() for character in term))


def _terms() -> Iterator[str]:
    for model in models():
        yield from (model.name, model.title, model.architecture, *model.aliases)
    for platform in platforms():
        yield from (platform.name, platform.title, platform.full_title, platform.arch, platform.generation)
    for layout in layouts():
        yield from (layout.name, f"TP{layout.tp}", f"DP{layout.dp}", f"EP{layout.ep}")
    for terms in shipped_toml("k3repro.spec", "data/vocabulary.toml").values():
        yield from terms
