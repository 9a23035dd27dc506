"""The word lists of the haystack, from words.toml."""

from __future__ import annotations

from k3repro.toml import shipped_toml

_LISTS = shipped_toml("k3repro.probes", "words.toml")

ADJECTIVES: tuple[str, ...] = tuple(_LISTS["adjectives"].split())
NOUNS: tuple[str, ...] = tuple(_LISTS["nouns"].split())
VERBS: tuple[str, ...] = tuple(_LISTS["verbs"].split())
PLACES: tuple[str, ...] = tuple(_LISTS["places"])
