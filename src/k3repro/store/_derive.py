"""Derivations: producers are pure functions of artifacts and parameters, so anyone can run them again."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from k3repro.errors import InputError, K3Error
from k3repro.observed import Watch
from k3repro.registry import producer_packages
from k3repro.store._artifact import Artifact
from k3repro.store._canonical import data_digest
from k3repro.store._moved import current_producer
from k3repro.store._policy import row_values
from k3repro.store._rows import Row, as_rows
from k3repro.store._schema import Schema, plain
from k3repro.store._vectors import Batch, sorted_batch

Rows = Mapping[str, Sequence[Mapping[str, Any] | Row]]
Producer = TypeVar("Producer", bound=Callable[..., Rows])
_ATTRIBUTE = "__k3_derivation__"


@dataclass(frozen=True, slots=True)
class Derivation:
    """What `@derivation` attached to a producer."""

    name: str
    schema: Schema
    producer: str


def derivation(*, name: str, schema: Schema) -> Callable[[Producer], Producer]:
    """Declare a producer ``f(inputs, *, parameter=default) -> {table: rows}`` of artifacts called `name`."""

    def attach(function: Producer) -> Producer:
        setattr(
            function, _ATTRIBUTE, Derivation(name, schema, f"{function.__module__}:{function.__qualname__}")
        )
        return function

    return attach


def derivation_of(function: Callable[..., Any]) -> Derivation:
    """The declaration of a producer.

    Raises:
        InputError: it is not decorated.
    """
    declared = getattr(function, _ATTRIBUTE, None)
    if not isinstance(declared, Derivation):
        raise InputError(
            f"{function!r} is not a derivation", fix="Decorate it with @derivation(name=..., schema=...)."
        )
    return declared


def bound_parameters(function: Callable[..., Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters with the defaults filled in, as plain JSON.

    Raises:
        InputError: an unknown or missing parameter.
    """
    try:
        bound = inspect.signature(function).bind((), **parameters)
    except TypeError as error:
        raise InputError(str(error), where=derivation_of(function).producer) from None
    bound.apply_defaults()
    values = dict(list(bound.arguments.items())[1:])
    result: dict[str, Any] = plain(values, f"parameters of {derivation_of(function).producer}")
    return result


def produce(
    function: Callable[..., Rows], inputs: Sequence[Artifact], parameters: Mapping[str, Any]
) -> tuple[dict[str, Batch], frozenset[str]]:
    """Run a producer: its rows as vectors in key order, and what it was seen to do (`k3repro.observed`)."""
    declared, watch = derivation_of(function), Watch()
    payload = payload_of(function(inputs, **parameters), declared.schema, declared.producer)
    return payload, watch.seen()


def payload_of(rows: Rows, schema: Schema, where: str) -> dict[str, Batch]:
    """Rows as vectors in key order, every value through the policy."""
    for name in rows:
        schema.table(name)
    payload = {}
    for table in schema.tables:
        values = [row_values(row, table, where) for row in as_rows(rows.get(table.name, ()))]
        payload[table.name] = sorted_batch(
            {c.name: [row[i] for row in values] for i, c in enumerate(table.columns)}, table, where
        )
    return payload


def payload_digest(schema: Schema, payload: Mapping[str, Batch]) -> str:
    """The data digest of rows in memory."""
    return data_digest(
        schema, {t.name: (len(payload[t.name][t.key[0]]), [payload[t.name]]) for t in schema.tables}
    )


def installed_producer(producer: str, packages: Sequence[str] | None = None) -> Callable[..., Rows]:
    """The producer an artifact names, under the name its module has today.

    Audit runs code only from `packages` (default: this package and those that register a study): an artifact
    names its producer, and must not be able to name any other code.

    Raises:
        InputError: it lies outside `packages`, does not exist, or is not a derivation.
    """
    packages = producer_packages() if packages is None else packages
    producer = current_producer(producer)
    module, _, name = producer.partition(":")
    if module.partition(".")[0] not in packages:
        raise InputError(
            f"producer {producer} is not part of {', '.join(packages)}", fix="Move it into the package."
        )
    try:
        function = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError):
        raise InputError(f"producer {producer} is not installed") from None
    if derivation_of(function).producer != producer:
        raise InputError(f"producer {producer} is really {derivation_of(function).producer}")
    result: Callable[..., Rows] = function
    return result


def recompute(
    artifact: Artifact, inputs: Sequence[Artifact], packages: Sequence[str] | None = None
) -> str | None:
    """Why a derivation does not come out as sealed; None when it does.

    Raises:
        InputError: it cannot be recomputed, so it is not citable.
    """
    function = installed_producer(artifact.producer, packages)
    try:
        payload, seen = produce(function, inputs, artifact.parameters)
    except K3Error as error:
        raise InputError(f"its producer refuses: {error}") from None
    except Exception as error:
        raise InputError(f"its producer fails: {type(error).__name__}: {error}") from None
    schema = derivation_of(function).schema
    if payload_digest(schema, payload) == artifact.data:
        return unobserved(seen, artifact)
    return _difference(schema, payload, artifact)


def unobserved(seen: Iterable[str], artifact: Artifact) -> str | None:
    """What was seen of a producer and stands nowhere in its artifact."""
    missing = sorted(set(seen) - set(artifact.document.get("observed", ())))
    if not missing:
        return None
    return f"its producer ran something {', '.join(missing)}, and it says derived from {artifact.basis}"


def _difference(schema: Schema, payload: Mapping[str, Batch], artifact: Artifact) -> str:
    from k3repro.store._vectors import batch_rows

    if schema.as_json(docs=False) != artifact.schema.as_json(docs=False):
        return "its schema is not the producer's"
    for table in schema.tables:
        computed, sealed = list(batch_rows(payload[table.name])), artifact.rows(table.name)
        if len(computed) != len(sealed):
            return f"{table.name}: {len(sealed)} rows sealed, {len(computed)} recomputed"
        for ours, theirs in zip(computed, sealed, strict=True):
            for name in ours:
                if ours[name] != theirs[name]:
                    key = {k: theirs[k] for k in table.key}
                    return f"{table.name} {key} {name}: sealed {theirs[name]!r}, recomputed {ours[name]!r}"
    return "the rows agree but the data digest does not"
