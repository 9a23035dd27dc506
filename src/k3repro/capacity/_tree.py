"""Formula trees: laws as data, and their one evaluator.

A tree is a number, ``["var", name]`` or ``[op, ...]`` with op in ``+ - * / min max floor ceil pow``.
Every step is a double, sums and products go from left to right, the least of equals is the first. A power is
taken in decimal and rounded once, so that its bits do not depend on a C library.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Context, Decimal, DecimalException, DivisionByZero, InvalidOperation, Overflow
from functools import reduce
from typing import Any, TypeAlias

from k3repro.errors import InputError

Tree: TypeAlias = "float | int | Sequence[Any]"

_MAX_DEPTH = 64
_SIXTY_DIGITS = Context(prec=60, traps=[InvalidOperation, DivisionByZero, Overflow])


def _divide(a: float, b: float) -> float:
    if b == 0:
        raise InputError("the formula divides by zero for these inputs")
    return a / b


def _power(base: float, exponent: float) -> float:
    """`base` to the `exponent`, rounded once from 60 decimal digits: the same bits whatever the C library."""
    if base == 0 and exponent == 0:
        return 1.0
    try:
        return float(_SIXTY_DIGITS.power(Decimal(base), Decimal(exponent)))
    except DecimalException:
        raise ValueError(f"{base:g} to the power {exponent:g} is no finite real number") from None


def _fold(step: Callable[[float, float], float]) -> Callable[..., float]:
    return lambda *values: reduce(step, values)


# name -> (least arguments, most arguments or None, function)
OPERATIONS: dict[str, tuple[int, int | None, Callable[..., float]]] = {
    "+": (1, None, _fold(lambda a, b: a + b)),
    "-": (1, 2, lambda a, b=None: -a if b is None else a - b),
    "*": (1, None, _fold(lambda a, b: a * b)),
    "/": (2, 2, _divide),
    "min": (1, None, lambda *values: min(values)),
    "max": (1, None, lambda *values: max(values)),
    "floor": (1, 1, lambda value: float(math.floor(value))),
    "ceil": (1, 1, lambda value: float(math.ceil(value))),
    "pow": (2, 2, _power),
}


def evaluate(tree: Tree, variables: Mapping[str, float]) -> float:
    """The value of a formula tree.

    Raises:
        InputError: an unknown operator or variable, wrong number of arguments, or no finite real value.
    """
    try:
        return _evaluate(tree, variables, 0)
    except (ValueError, OverflowError) as error:
        raise InputError(f"the formula has no value for these inputs: {error}") from None


def _evaluate(tree: Tree, variables: Mapping[str, float], depth: int) -> float:
    if isinstance(tree, (int, float)) and not isinstance(tree, bool):
        return _finite(float(tree))
    if depth > _MAX_DEPTH or isinstance(tree, (str, bytes)) or not isinstance(tree, Sequence) or not tree:
        raise InputError(
            f"{tree!r} is not a formula tree", fix="A tree is a number, ['var', name] or [op, ...]."
        )
    head, *arguments = tree
    if head == "var":
        return _variable(arguments, variables)
    if not isinstance(head, str) or head not in OPERATIONS:
        raise InputError(f"unknown operator {head!r}", fix=f"Known: {' '.join(OPERATIONS)}.")
    least, most, function = OPERATIONS[head]
    if len(arguments) < least or (most is not None and len(arguments) > most):
        raise InputError(f"operator {head!r} does not take {len(arguments)} arguments")
    return _finite(function(*(_evaluate(argument, variables, depth + 1) for argument in arguments)))


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise InputError("the formula has no finite value for these inputs")
    return value


def _variable(arguments: Sequence[Any], variables: Mapping[str, float]) -> float:
    if len(arguments) != 1 or not isinstance(arguments[0], str):
        raise InputError("a variable is ['var', name]")
    if arguments[0] not in variables:
        known = ", ".join(sorted(variables)) or "none"
        raise InputError(f"the formula needs {arguments[0]!r}, which was not given", fix=f"Given: {known}.")
    return _finite(float(variables[arguments[0]]))


def variables_of(tree: Tree) -> frozenset[str]:
    """Names of all variables a tree uses."""
    if isinstance(tree, (int, float, str)) or not tree:
        return frozenset()
    if tree[0] == "var":
        return frozenset(str(name) for name in tree[1:])
    return frozenset().union(*(variables_of(argument) for argument in tree[1:]))


def formula_text(tree: Tree) -> str:
    """A tree as people write it: ``0.97 + 0.074 * osl``."""
    if isinstance(tree, (int, float)):
        return f"{tree:g}"
    head, *arguments = tree
    if head == "var":
        return str(arguments[0])
    parts = [formula_text(argument) for argument in arguments]
    if head in "+-*/" and len(parts) > 1:
        return "(" + f" {head} ".join(parts) + ")"
    return f"{head}({', '.join(parts)})"
