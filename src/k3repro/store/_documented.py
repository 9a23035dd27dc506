"""What an artifact says about itself, read from its meta document."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from k3repro.store._canonical import seal_digest
from k3repro.store._schema import Schema, canonical_json


class Documented:
    """Attributes of the document that the seal covers."""

    @property
    def document(self) -> dict[str, Any]:
        """The meta document."""
        raise NotImplementedError

    @cached_property
    def schema(self) -> Schema:
        """Payload tables, columns, units and keys."""
        return Schema.from_json(self.document["schema"])

    @cached_property
    def seal(self) -> str:
        """The digest over everything: what cites this artifact names this."""
        return seal_digest(canonical_json(self.document))

    @property
    def data(self) -> str:
        """The digest over the payload: the same on every machine for the same rows."""
        return str(self.document["data"])

    @property
    def name(self) -> str:
        """For instance "osl-sweep"."""
        return str(self.document["name"])

    @property
    def subject(self) -> str:
        """What it is about, for instance "twin:mi325x"."""
        return str(self.document["subject"])

    @property
    def kind(self) -> str:
        """probe, bring-up, derivation, transcription or audit."""
        return str(self.document["kind"])

    @property
    def tier(self) -> str:
        """measured, simulated, published, config, derived or unverified."""
        return str(self.document["tier"])

    @property
    def basis(self) -> str:
        """The weakest tier of the inputs of a derived artifact; else the tier."""
        return str(self.document["basis"])

    @property
    def run_id(self) -> str:
        """The run that made it."""
        return str(self.document["run_id"])

    @property
    def producer(self) -> str:
        """module:function."""
        return str(self.document["producer"])

    @property
    def code(self) -> str:
        """The normalised hash of the producer's code ("" when it had no module)."""
        return str(self.document["code"])

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of the run."""
        return dict(self.document["parameters"])

    @property
    def inputs(self) -> tuple[str, ...]:
        """The seals it was derived from."""
        return tuple(self.document["inputs"])

    @property
    def serve(self) -> dict[str, Any]:
        """What was known about the serve, evidence included."""
        return dict(self.document["serve"])

    @property
    def clock(self) -> str:
        """virtual, wall or none."""
        return str(self.document["clock"])

    @property
    def verdict(self) -> dict[str, Any]:
        """ok and reasons."""
        return dict(self.document["verdict"])

    @property
    def environment(self) -> dict[str, Any]:
        """Python, packages, commit, allowed variables."""
        return dict(self.document["environment"])

    @property
    def citation(self) -> dict[str, Any]:
        """The document a transcription cites."""
        return dict(self.document["citation"])

    @property
    def row_counts(self) -> dict[str, int]:
        """Rows per payload table."""
        return dict(self.document["rows"])
