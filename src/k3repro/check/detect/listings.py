"""A benchmark's printed result (`vllm bench serve`, `bench_serving` and tables of the same lines), checked
within itself.

Precondition: the lines carry the names that those tools print; each relation needs all of its lines. Mean
TTFT, mean TPOT and tokens a request give the mean end to end within 40 %.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction

from k3repro.check._grid import grid_of
from k3repro.check._lexer import Printed
from k3repro.check._phrases import header_unit
from k3repro.check._relation import Reckoning, Relation, relate
from k3repro.check._text import Context, show
from k3repro.printed import Span

__all__ = ["detect"]

_NAMES = (
    ("requests", r"(?:number of )?(?:successful|"
                 r"completed)(?: requests)?"), ("duration", r"benchmark duration|total duration|duration"),
    ("input", r"total (?:input|prompt)"
              r" (?:text )"
              r"?tokens"), ("output", r"total (?:generated|output) tokens"), ("tokens", r"total tokens"),
    ("request rate", r"request throughput"), ("input rate", r"input token throughput|input throughput"),
    ("output rate", r"output token throughput|"
                    r"output throughput"), ("total rate", r"total token throughput|total "
                                                          r"throughput|overall token throughput"),
    ("latency", r"mean e2el?(?: latency)?|mean "
                r"end-to-end latency|"
                r"average e2e latency"),
    ("first", r"mean ttft"), ("next", r"mean tpot"), ("in flight", r"concurrency|achieved concurrency"),
)  # fmt: skip
_LINE = re.compile(
    r"(?m)^[ \t|]*(?P<label>[A-Za-z][A-Za-z0-9 /_-]*?)"
    r"\s*(?P<unit>\([^)\n]*\))?\s*[:|]\s*(?P<number>[\d.,]+)[ \t|]*$"
)
_RULES: tuple[tuple[str, tuple[str, ...], str, Callable[..., Span]], ...] = (
    ("request rate", ("requests", "duration"), "{0} / {1}", lambda a, b: a / b),
    ("output rate", ("output", "duration"), "{0} / {1}", lambda a, b: a / b),
    ("input rate", ("input", "duration"), "{0} / {1}", lambda a, b: a / b),
    ("total rate", ("input", "output", "duration"), "({0} + {1}) / {2}", lambda a, b, c: (a + b) / c),
    ("total rate", ("input rate", "output rate"), "{0} + {1}", lambda a, b: a + b),
    ("tokens", ("input", "output"), "{0} + {1}", lambda a, b: a + b),
    ("in flight", ("request rate", "latency"), "{0} x {1}", lambda a, b: a * b),
    (
        "latency", ("first", "next", "output", "requests"), "{0} + ({2} / {3} - 1) x {1}, within 40 %",
        lambda first, following, tokens, requests: _about(
            first + (tokens / requests - Span.point(1)) * following
        ),
    ),
)  # fmt: skip


def _about(span: Span) -> Span:
    """Means of a product: lengths and speeds of requests vary together."""
    return Span(span.low * Fraction(60, 100), span.high * Fraction(140, 100))


def detect(context: Context) -> Iterator[Relation]:
    for block in context.document.blocks:
        if block.kind == "output":
            by_start = {n.start: n for n in context.numbers(block)}
            found: dict[str, Printed] = {}
            for match in _LINE.finditer(block.text):
                number, name = by_start.get(match.start("number")), _name(match.group("label"))
                if number is not None and name:
                    found.setdefault(name, _with(number, match.group("unit") or ""))
            yield from _judge(found)
    for table in context.document.tables:
        grid = grid_of(table, context)
        for column in grid.columns:
            named = {
                _name(re.sub(r"\s*\([^)]*\)", "", grid.row_labels[r])): n for r, n in column.cells.items()
            }
            yield from _judge({name: n for name, n in named.items() if name})


def _name(label: str) -> str:
    said = label.strip().lower()
    return next((name for name, words in _NAMES if re.fullmatch(words, said)), "")


def _with(number: Printed, unit: str) -> Printed:
    said = header_unit(unit)[0] if unit else ""
    return (
        replace(number, unit=said, ulp=min(number.ulp, Fraction(1)))
        if said
        else replace(number, ulp=min(number.ulp, Fraction(1)))
    )


def _judge(found: Mapping[str, Printed]) -> Iterator[Relation]:
    for claim, names, shape, formula in _RULES:
        if claim not in found or any(name not in found for name in names):
            continue
        if claim == "in flight" and "." not in found[claim].text:
            continue  # a limit that was set, not what was in flight
        inputs = [found[name] for name in names]
        derived = formula(*(_span(n) for n in inputs))
        says = f"{claim} {show(found[claim])} is {shape.format(*names)}"
        relation = relate(
            "listing",
            found[claim],
            inputs,
            [Reckoning(shape.format(*(show(n) for n in inputs)), derived)],
            says,
        )
        if relation is not None:
            yield relation


def _span(number: Printed) -> Span:
    exact = number.value.denominator == 1 and "." not in number.text
    return Span.point(number.value).scaled(number.measure.factor) if exact else number.span
