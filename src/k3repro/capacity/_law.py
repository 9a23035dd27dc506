"""A law: a formula with its inputs, error and calibrated range, stored as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from k3repro.capacity._tree import Tree, evaluate, variables_of
from k3repro.errors import InputError


@dataclass(frozen=True, slots=True)
class Law:
    """A formula tree over named variables.

    `inputs` says where the constants come from (seal, citation or spec), `range` holds [low, high] per
    variable inside which the law was calibrated, `error` what is known of its error.
    """

    name: str
    formula: Tree
    unit: str
    inputs: Mapping[str, Any] = field(default_factory=dict)
    range: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    error: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """The law as JSON data; `law_of` reads it back."""
        return {
            "name": self.name,
            "formula": self.formula,
            "unit": self.unit,
            "inputs": dict(self.inputs),
            "range": {name: list(bounds) for name, bounds in self.range.items()},
            "error": dict(self.error),
        }

    def outside(self, variables: Mapping[str, float]) -> list[str]:
        """One sentence per variable that lies outside the calibrated range; empty inside."""
        sentences = []
        for name, (low, high) in sorted(self.range.items()):
            value = variables.get(name)
            if value is not None and not low <= value <= high:
                sentences.append(f"{name} = {value:g} is outside the calibrated {low:g} to {high:g}")
        return sentences

    def __call__(self, **variables: float) -> float:
        """Evaluate inside the calibrated range.

        Raises:
            InputError: a variable outside the range, missing, or unknown.
        """
        outside = self.outside(variables)
        if outside:
            raise InputError("; ".join(outside), where=self.name, fix="The law is not used beyond its fit.")
        return evaluate(self.formula, variables)


def law_of(data: Mapping[str, Any]) -> Law:
    """Read a law from JSON data.

    Raises:
        InputError: a field is missing, or a range names a variable the formula does not have.
    """
    try:
        law = Law(
            name=str(data["name"]),
            formula=data["formula"],
            unit=str(data.get("unit", "")),
            inputs=dict(data.get("inputs", {})),
            range={str(k): (float(v[0]), float(v[1])) for k, v in dict(data.get("range", {})).items()},
            error=dict(data.get("error", {})),
        )
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise InputError(
            f"not a law: {error}", fix="A law has name, formula, unit, inputs, range, error."
        ) from None
    variables_of(law.formula)
    return law
