"""Sentences, clauses and the metrics they speak of."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from k3repro.check._document import Block, Document
from k3repro.check._lexer import Printed, Reading

__all__ = ["MEASURED", "Context", "Sentence", "clashes", "metric_of", "metrics_in", "sentences", "show"]

_END = re.compile(r"(?:(?<=[.!?])|(?<=[.!?][\"”’)]))\s+(?=[A-Z\d“\"‘'(*~$≈])|[;\n]\s*|(?<=[.!?])\s*$")
_ABBREVIATED = re.compile(
    r"(?i)(?:\b(?:vs|e\.g|i\.e|approx|fig|figs|eq|sec|tab|cf|al|no|resp|incl|ca|jan|feb|mar|"
    r"apr|jun|jul|aug|sep|sept|oct|nov|dec|dr|mr|st|inc|ltd|z\.B|bzw)|\b[A-Z])\.$"
)

# A metric belongs to a class; a percentage of one class says nothing of a pair of another.
_METRICS = (
    ("rate", r"throughputs?|goodput|tokens? per second|tok/s|tps|bandwidth|output speed|"
             r"generation speed|requests per second|qps|rps|decode speed|flops|tflops"),
    ("time", r"latenc(?:y|ies)|ttft|tpot|itl|e2el?|time|delays?|durations?|overheads?|stalls?|wait|"
             r"runtime|step time|startup|prefill time|inter-token|time-to-first-token"),
    ("size", r"memory|size|footprint|storage|weights?|cache size|checkpoint|vram|bytes|hbm|traffic|volume"),
    ("capacity", r"capacity|concurrency|batch size|requests|users|sessions|kv[- ]cache capacity"),
    ("money", r"costs?|price|spend|bill"),
    ("share", r"accuracy|utili[sz]ation|hit[- ]rates?|hit ratio|acceptance|recall|score|usage|occupancy|"
              r"attainment|success rate|error rate|mfu|efficiency|quality|sparsity"),
    ("power", r"power|energy"),
    ("count", r"gpus?|nodes?|servers?|parameters|layers|kernels?|launches|lines|calls|steps"),
)  # fmt: skip
_METRIC = re.compile("|".join(rf"(?P<{name}>\b(?:{words})\b)" for name, words in _METRICS), re.IGNORECASE)
MEASURED = ("rate", "time", "size", "money", "share", "power")


@dataclass(frozen=True, slots=True)
class Sentence:
    """A stretch of a block with the numbers in it; offsets are the block's."""

    block: Block
    start: int
    end: int
    numbers: tuple[Printed, ...]

    @property
    def text(self) -> str:
        return self.block.text[self.start : self.end]

    def between(self, a: Printed, b: Printed) -> str:
        return self.block.text[a.end : b.start]

    def before(self, a: Printed) -> str:
        return self.block.text[self.start : a.start]

    def after(self, a: Printed) -> str:
        return self.block.text[a.end : self.end]


@dataclass(frozen=True, slots=True)
class Context:
    """A document, its readings and its sentences: what every detector works on."""

    document: Document
    readings: dict[int, Reading]
    sentences: tuple[Sentence, ...]
    grids: dict[int, Any] = field(default_factory=dict)  # what _grid read of a table, by its index

    @classmethod
    def of(cls, document: Document, readings: dict[int, Reading]) -> Context:
        found = [
            s
            for block in document.prose()
            if block.index in readings
            for s in sentences(block, readings[block.index])
        ]
        return cls(document, readings, tuple(found))

    def numbers(self, block: Block) -> tuple[Printed, ...]:
        reading = self.readings.get(block.index)
        return reading.numbers if reading else ()


def sentences(block: Block, reading: Reading) -> Iterator[Sentence]:
    """The sentences of a block; an abbreviation's full stop ends none."""
    start = 0
    for match in _END.finditer(block.text):
        if _ABBREVIATED.search(block.text[start : match.start()].rstrip()[-8:]) and match.end() < len(
            block.text
        ):
            continue
        yield from _sentence(block, start, match.start(), reading)
        start = match.end()
    yield from _sentence(block, start, len(block.text), reading)


def _sentence(block: Block, start: int, end: int, reading: Reading) -> Iterator[Sentence]:
    if block.text[start:end].strip():
        yield Sentence(block, start, end, tuple(n for n in reading.numbers if start <= n.start < end))


def metrics_in(text: str) -> list[str]:
    """Classes of the metrics that a text names, in order."""
    return [str(match.lastgroup) for match in _METRIC.finditer(text)]


def metric_of(number: Printed) -> str:
    """The class that a unit belongs to; empty where it could be a setting (counts, lengths, plain
    numbers).
    """
    top = {name for name, power in number.dimension if power > 0}
    under = {name for name, power in number.dimension if power < 0}
    if "dollar" in top:
        return "money"
    if "second" in under:
        return "rate"
    if top == {"second"}:
        return "time"
    if top == {"byte"}:
        return "size"
    if top & {"watt", "joule"}:
        return "power"
    return "share" if number.unit in ("%", "point") else ""


def clashes(text: str, metric: str) -> bool:
    """Whether a text names a metric of another class than `metric`."""
    near = {"rate": {"rate", "share"}, "share": {"share", "rate", "time"}, "size": {"size", "capacity"}}.get(
        metric, {metric}
    )
    return any(found not in near for found in metrics_in(text))


def show(number: Printed) -> str:
    """The number as printed, with its hedge's sign left out."""
    return " ".join(number.text.split())
