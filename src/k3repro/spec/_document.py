"""A spec file: TOML in which every field is ``[value, source]``; what nobody states is listed as unknown."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass
from dataclasses import fields as fields_of
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

from k3repro.errors import SpecError
from k3repro.registry import entries, package_folder
from k3repro.toml import parse_toml

T = TypeVar("T")
_META = ("name", "title", "full_title", "aliases", "architecture", "family", "vendor", "model", "platform")


@dataclass(frozen=True, slots=True)
class Document:
    """One parsed spec file: plain values, where each came from, and what is unknown."""

    where: str
    head: Mapping[str, Any]
    sections: Mapping[str, Mapping[str, Any]]
    sources: Mapping[str, str]
    unknown: Mapping[str, str]

    def head_fields(self) -> dict[str, Any]:
        """The identifying keys (name, title, ...) as constructor arguments."""
        fields = dict(self.head)
        if "aliases" in fields:
            fields["aliases"] = tuple(fields["aliases"])
        return fields

    def section(self, name: str) -> Mapping[str, Any]:
        """The fields of a section; empty when the file has none."""
        return self.sections.get(name, {})


def made(cls: type[T], values: Mapping[str, Any], where: str, section: str) -> T:
    """`cls` from the fields of a section.

    Raises:
        SpecError: a field that is unknown, or one that is missing.
    """
    known = {item.name: item for item in fields_of(cls)}  # type: ignore[arg-type]
    wrong = [f"no field {name!r}" for name in values if name not in known]
    wrong += [
        f"{name!r} is missing" for name, item in known.items()
        if name not in values and item.default is MISSING and item.default_factory is MISSING
    ]  # fmt: skip
    if wrong:
        fix = f"Its fields: {', '.join(name for name in known if name not in ('sources', 'unknown'))}."
        raise SpecError(f"[{section}]: {', '.join(wrong)}", where=where, fix=fix)
    return cls(**values)


def parse_document(text: str, where: str) -> Document:
    """Parse a spec file.

    Raises:
        SpecError: bad TOML, a field without a source, a source nobody defined, an unknown top-level key.
    """
    raw = parse_toml(text, where, error=SpecError)
    legend = raw.pop("sources", {})
    unknown = raw.pop("unknown", {})
    head = {key: raw.pop(key) for key in _META if key in raw and not isinstance(raw[key], dict)}
    if not isinstance(head.get("name"), str):
        raise SpecError("the file has no name", where=where, fix='Start it with name = "...".')
    sections: dict[str, dict[str, Any]] = {}
    sources: dict[str, str] = {}
    for section, fields in raw.items():
        if not isinstance(fields, dict):
            raise SpecError(f"{section!r} is not a section or a known key", where=where)
        sections[section] = {}
        for field, pair in fields.items():
            value, source = _pair(pair, f"{where}: {section}.{field}", legend)
            sections[section][field] = value
            sources[f"{section}.{field}"] = source
    return Document(where, head, sections, sources, unknown)


def _pair(pair: Any, where: str, legend: Mapping[str, str]) -> tuple[Any, str]:
    if not (isinstance(pair, list) and len(pair) == 2 and isinstance(pair[1], str)):
        raise SpecError(
            "a field is [value, source]", where=where, fix='Write it like heads = [96, "config"].'
        )
    if pair[1] not in legend:
        raise SpecError(
            f"source {pair[1]!r} is not in [sources]", where=where, fix="Say where the number comes from."
        )
    return pair[0], str(legend[pair[1]])


def load_document(kind: str, name: str) -> Document:
    """The spec `name` of a kind ("models", "platforms", "layouts"), or a path to a TOML file of that shape.

    Raises:
        SpecError: no such spec; the message lists those there are.
    """
    path = Path(name)
    if path.suffix == ".toml":
        if not path.is_file():
            raise SpecError("no such spec file", where=name)
        return parse_document(path.read_text(encoding="utf-8"), name)
    documents = {document.head["name"]: document for document in all_documents(kind)}
    wanted = name.lower()
    for key, document in documents.items():
        if wanted in {key, *(alias.lower() for alias in document.head.get("aliases", ()))}:
            return document
    raise SpecError(
        f"no {kind[:-1]} named {name!r}",
        fix=f"Known: {', '.join(sorted(documents))}; or give the path of a .toml file.",
    )


@cache
def all_documents(kind: str) -> tuple[Document, ...]:
    """All specs of a kind, sorted by name: the shipped ones, those of packages that register `k3repro.specs`,
    and those of a study in `$K3REPRO_SPECS`.
    """
    return tuple(sorted(_read(kind), key=lambda document: str(document.head["name"])))


def _read(kind: str) -> Iterator[Document]:
    for entry in files("k3repro.spec").joinpath("data", kind).iterdir():
        if entry.name.endswith(".toml"):
            yield parse_document(entry.read_text(encoding="utf-8"), f"spec/{kind}/{entry.name}")
    folders = [package_folder(entry) for entry in entries("k3repro.specs").values()]
    if own := os.environ.get("K3REPRO_SPECS"):
        folders.append(Path(own))
    for folder in folders:
        for path in sorted((folder / kind).glob("*.toml")):
            yield parse_document(path.read_text(encoding="utf-8"), str(path))
