"""The word lists of the haystack, from words.toml."""

from __future__ import annotations

import tomllib
from importlib.resources import files

_LISTS = tomllib.loads(files(__package__).joinpath("words.toml").read_text(encoding="utf-8"))

ADJECTIVES: tuple[str, ...] = tuple(_LISTS["adjectives"].split())
NOUNS: tuple[str, ...] = tuple(_LISTS["nouns"].split())
VERBS: tuple[str, ...] = tuple(_LISTS["verbs"].split())
PLACES: tuple[str, ...] = tuple(_LISTS["places"])
