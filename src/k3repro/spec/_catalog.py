"""Models by name: the shipped specs, spec files, and Hub configs."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from k3repro.spec._config import model_of_config
from k3repro.spec._document import all_documents, load_document
from k3repro.spec._model import Model, model_of


@cache
def load_model(name: str) -> Model:
    """A shipped model by name or alias, the path of a spec file, or of a Hub `config.json` (or its folder).

    Raises:
        SpecError: no such model; the message lists the known ones.
    """
    if name.endswith(".json") or Path(name).is_dir():
        return model_of_config(name)
    return model_of(load_document("models", name))


def models() -> tuple[Model, ...]:
    """All shipped models, by name."""
    return tuple(model_of(document) for document in all_documents("models"))
