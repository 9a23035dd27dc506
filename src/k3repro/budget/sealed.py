"""Specs as sealed artifacts (tier config), so that a derivation names the very description it used."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

from k3repro.errors import InputError
from k3repro.spec import Layout, Model, Platform
from k3repro.spec.documents import Document, layout_of, load_document, model_of, platform_of
from k3repro.store import Artifact, Col, Row, Schema, Store


class SpecField(Row, table="fields", key=("section", "field")):
    """A spec, field by field."""

    section: str
    field: str
    value: Annotated[str | None, Col(doc="JSON; NULL when unknown")]
    source: Annotated[str | None, Col(doc="where the value comes from, or why it is unknown")]


SCHEMA = Schema((SpecField.TABLE,))


def seal_spec(store: Store, kind: str, name: str) -> Artifact:
    """Seal a shipped spec: kind "models", "platforms" or "layouts". Unchanged specs seal once."""
    document = load_document(kind, name)
    rows = [
        SpecField(section="", field=key, value=json.dumps(value), source="identity")
        for key, value in document.head.items()
    ]
    for section, fields in document.sections.items():
        for field, value in fields.items():
            source = document.sources[f"{section}.{field}"]
            rows.append(SpecField(section=section, field=field, value=json.dumps(value), source=source))
    rows += [
        SpecField(section="unknown", field=field, value=None, source=why)
        for field, why in document.unknown.items()
    ]
    head = document.head["name"]
    citation = {"spec": document.where, "locator": f"{kind}/{head}"}
    return store.transcribe("spec", f"{kind}/{head}", citation, SCHEMA, rows)


def _document(artifact: Artifact) -> Document:
    if artifact.name != "spec":
        raise InputError("not a sealed spec", where=f"{artifact.name}@{artifact.subject}")
    head: dict[str, Any] = {}
    sections: dict[str, dict[str, Any]] = {}
    sources: dict[str, str] = {}
    unknown: dict[str, str] = {}
    for row in artifact.rows("fields"):
        section, field = row["section"], row["field"]
        if section == "unknown":
            unknown[field] = row["source"]
        elif not section:
            head[field] = json.loads(row["value"])
        else:
            sections.setdefault(section, {})[field] = json.loads(row["value"])
            sources[f"{section}.{field}"] = row["source"]
    return Document(f"{artifact.name}@{artifact.subject}", head, sections, sources, unknown)


def specs_of(inputs: Mapping[str, Artifact] | list[Artifact] | tuple[Artifact, ...]) -> Specs:
    """All sealed specs among artifacts, typed."""
    artifacts = inputs.values() if isinstance(inputs, Mapping) else inputs
    found = Specs({}, {}, {})
    for artifact in artifacts:
        kind, _, _ = artifact.subject.partition("/")
        if artifact.name != "spec":
            continue
        document = _document(artifact)
        name = str(document.head["name"])
        if kind == "models":
            found.models[name] = model_of(document)
        elif kind == "platforms":
            found.platforms[name] = platform_of(document)
        else:
            found.layouts[name] = layout_of(document)
    return found


class Specs:
    """Models, platforms and layouts by name."""

    def __init__(
        self, models: dict[str, Model], platforms: dict[str, Platform], layouts: dict[str, Layout]
    ) -> None:
        self.models, self.platforms, self.layouts = models, platforms, layouts

    def model(self) -> Model:
        """The one model.

        Raises:
            InputError: none or several.
        """
        if len(self.models) != 1:
            raise InputError(f"{len(self.models)} model specs among the inputs, one is needed")
        return next(iter(self.models.values()))
