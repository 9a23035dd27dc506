"""Formulas of a ledger: parsed, evaluated on intervals with units, solved for one of their claims.

Syntax: claim ids, numbers, + - * / **, and floor, ceil, round, min, max, sum, abs, plain (drops the unit),
 unit(number, "tokens"), exponent(y1, y2, x1, x2) (slope between two points on logarithmic axes).
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

from k3repro.errors import InputError
from k3repro.printed import INFINITY, Number, Span, Unit, combine, parse_unit

__all__ = ["Formula", "Measure", "parse_formula"]

Dimension = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Measure:
    """An interval in base units with its dimension."""

    span: Span
    dimension: Dimension


Environment = Mapping[str, Measure]


@dataclass(frozen=True, slots=True)
class _Node:
    operation: str
    parts: tuple[_Node, ...] = ()
    name: str = ""
    measure: Measure | None = None


class UnitMismatch(InputError):
    """Two parts of a formula have different units."""


@dataclass(frozen=True, slots=True)
class Formula:
    """A parsed formula: `text` as written, `names` of the claims it reads."""

    text: str
    root: _Node
    names: tuple[str, ...]

    def evaluate(self, environment: Environment) -> Measure:
        """The interval and dimension of the formula.

        Raises:
            UnitMismatch: a sum or comparison of different dimensions.
        """
        return _evaluate(self.root, environment, self.text)

    def solve(self, name: str, result: Span, environment: Environment) -> Span | None:
        """The values of `name` that allow `result`; None when it appears more than once."""
        return (
            _solve(self.root, name, result, environment, self.text) if self.names.count(name) == 1 else None
        )


def _integral(function: Callable[[Fraction], int]) -> Callable[[Number], Number]:
    return lambda value: Fraction(function(value)) if isinstance(value, Fraction) else value


def _round_half_up(value: Fraction) -> int:
    return math.floor(value + Fraction(1, 2))


_LITERAL = re.compile(r"[\d_.]{1,40}(?:[eE][+-]?\d{1,3})?")
_STEPS: dict[str, tuple[Callable[[Number], Number], Span]] = {
    "floor": (_integral(math.floor), Span(Fraction(0), Fraction(1))),
    "ceil": (_integral(math.ceil), Span(Fraction(-1), Fraction(0))),
    "round": (_integral(_round_half_up), Span(Fraction(-1, 2), Fraction(1, 2))),
}
_BINARY = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "**"}
_FUNCTIONS = {*_STEPS, "min", "max", "sum", "abs", "plain", "unit", "exponent"}


def parse_formula(text: str, where: str = "") -> Formula:
    """Parse `text`.

    Raises:
        InputError: anything outside the small language.
    """
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise InputError(f"{text!r} is not a formula: {error}", where=where) from None
    names: list[str] = []
    try:
        root = _build(tree, text, where, names)
    except RecursionError:
        raise InputError("a formula is nested too deeply", where=where) from None
    return Formula(text.strip(), root, tuple(names))


def _build(node: ast.expr, text: str, where: str, names: list[str]) -> _Node:
    if (
        isinstance(node, ast.Constant)
        and isinstance(node.value, int | float)
        and not isinstance(node.value, bool)
    ):
        literal = ast.get_source_segment(text.strip(), node) or str(node.value)
        if not _LITERAL.fullmatch(literal):
            raise InputError(f"{literal[:20]!r} is no number a formula may hold", where=where)
        return _Node("number", measure=Measure(Span.point(Fraction(literal.replace("_", ""))), ()))
    if isinstance(node, ast.Name | ast.Attribute):
        names.append(ast.unparse(node))
        return _Node("name", name=names[-1])
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return _Node("negate", (_build(node.operand, text, where, names),))
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        sides = (_build(node.left, text, where, names), _build(node.right, text, where, names))
        return _Node(_BINARY[type(node.op)], sides)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS:
        return _call(node.func.id, node, text, where, names)
    raise InputError(
        f"{ast.unparse(node)!r} is not part of the formula language",
        where=where,
        fix="Use claim ids, numbers, + - * / ** and " + ", ".join(sorted(_FUNCTIONS)) + ".",
    )


def _call(function: str, node: ast.Call, text: str, where: str, names: list[str]) -> _Node:
    if function == "unit":
        match node.args:
            case [ast.Constant(value=int() | float() as value), ast.Constant(value=str() as name)]:
                unit = parse_unit(name)
                return _Node(
                    "number", measure=Measure(Span.point(Fraction(str(value)) * unit.factor), unit.dimension)
                )
        raise InputError('unit(...) takes a number and a unit, as in unit(255, "token/request")', where=where)
    parts = tuple(_build(argument, text, where, names) for argument in node.args)
    if (
        not parts
        or (function in {*_STEPS, "abs", "plain"} and len(parts) != 1)
        or (function == "exponent" and len(parts) != 4)
    ):
        raise InputError(f"{function}(...) has the wrong number of arguments", where=where)
    return _Node(function, parts)


def _evaluate(node: _Node, environment: Environment, text: str) -> Measure:
    if node.measure is not None:
        return node.measure
    if node.operation == "name":
        return environment[node.name]
    values = [_evaluate(part, environment, text) for part in node.parts]
    spans = [value.span for value in values]
    match node.operation:
        case "negate":
            return Measure(-spans[0], values[0].dimension)
        case "*" | "/":
            sign = 1 if node.operation == "*" else -1
            span = spans[0] * spans[1] if sign == 1 else spans[0] / spans[1]
            return Measure(span, combine(values[0].dimension, values[1].dimension, sign))
        case "**":
            return _power(values[0], values[1], text)
        case "plain":
            return Measure(spans[0], ())
        case "exponent":
            return Measure(_slope(spans), ())
    dimension = _shared(values, text)
    return Measure(_combine(node.operation, spans), dimension)


def _combine(operation: str, spans: list[Span]) -> Span:
    if operation in _STEPS:
        return spans[0].apply(_STEPS[operation][0])
    match operation:
        case "+" | "sum":
            total = spans[0]
            for span in spans[1:]:
                total = total + span
            return total
        case "-":
            return spans[0] - spans[1]
        case "min":
            return Span(min(s.low for s in spans), min(s.high for s in spans))
        case "max":
            return Span(max(s.low for s in spans), max(s.high for s in spans))
    low, high = spans[0].low, spans[0].high  # abs
    return spans[0] if low >= 0 else -spans[0] if high <= 0 else Span(Fraction(0), max(-low, high))


def _shared(values: list[Measure], text: str) -> Dimension:
    first = values[0].dimension
    for value in values[1:]:
        if value.dimension != first:
            names = [Unit("", Fraction(1), v.dimension).dimension_text for v in (values[0], value)]
            raise UnitMismatch(
                f"{text!r} mixes {names[0]} with {names[1]}", fix="Give the claims units that fit."
            )
    return first


def _power(base: Measure, exponent: Measure, text: str) -> Measure:
    power = exponent.span.low
    if exponent.span.width or exponent.dimension or not isinstance(power, Fraction) or power.denominator != 1:
        raise InputError(f"{text!r} has an exponent that is not a whole number")
    if abs(power) > 64:
        raise InputError(f"{text!r} has an exponent beyond 64")
    return Measure(
        base.span.power(int(power)), tuple((name, times * int(power)) for name, times in base.dimension)
    )


def _slope(spans: list[Span]) -> Span:
    """d log y / d log x between two points, ends widened by what double logarithms lose."""
    y1, y2, x1, x2 = spans
    if min(float(s.low) for s in spans) <= 0 or not all(s.finite for s in spans):
        return Span(-INFINITY, INFINITY)
    rise, run = y2 / y1, x2 / x1
    if run.low <= 1:
        return Span(-INFINITY, INFINITY)
    slopes = [
        math.log(float(r)) / math.log(float(q)) for r in (rise.low, rise.high) for q in (run.low, run.high)
    ]
    return Span(Fraction(min(slopes)) - Fraction(1, 10**12), Fraction(max(slopes)) + Fraction(1, 10**12))


def _solve(node: _Node, name: str, result: Span, environment: Environment, text: str) -> Span | None:
    if node.operation == "name":
        return result
    index = next((i for i, part in enumerate(node.parts) if name in set(_names(part))), None)
    if index is None:
        return None
    others = [_evaluate(p, environment, text).span for i, p in enumerate(node.parts) if i != index]
    needed = _undo(node.operation, index, result, others)
    return None if needed is None else _solve(node.parts[index], name, needed, environment, text)


def _undo(operation: str, index: int, result: Span, others: list[Span]) -> Span | None:
    if operation in _STEPS:
        return result + _STEPS[operation][1]
    match operation:
        case "negate":
            return -result
        case "plain":
            return result
        case "+" | "sum":
            for other in others:
                result = result - other
            return result
        case "-":
            return result + others[0] if index == 0 else others[0] - result
        case "*":
            return result / others[0]
        case "/":
            return result * others[0] if index == 0 else others[0] / result
    return None


def _names(node: _Node) -> Iterator[str]:
    if node.operation == "name":
        yield node.name
    for part in node.parts:
        yield from _names(part)
