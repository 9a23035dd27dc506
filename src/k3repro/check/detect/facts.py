"""Printed facts of a model or GPU that `spec` describes: parameters, experts, layers, context, memory,
bandwidth, peak.

Precondition: the sentence (for a cell: the header of its column) names exactly one known model, with its
size where the model has one in its name, or one known GPU right before the bracket that holds its size; the
number's own words say which fact it is, and of several totals none is judged.
Rounding and 4 % are allowed, because sources count draft layers differently; active parameters are counted
with or without the embedding, of which a token reads one row; a GPU's memory is what its data sheet says or
up to 7 % less, which is what its driver offers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import cache

from k3repro.budget import passes_of
from k3repro.check._document import Block
from k3repro.check._lexer import Printed
from k3repro.check._relation import Reckoning, Relation, relate
from k3repro.check._text import Context, Sentence, show
from k3repro.errors import K3Error
from k3repro.printed import Span
from k3repro.spec import Model, Platform, models, platforms

__all__ = ["detect", "model_in", "parameters_of"]

_SLACK = Fraction(1, 25)
_OFFERED = Fraction(93, 100)  # of what the data sheet says is offered: 275,040 MiB on B300 is called 275 GB
_MODELISH = re.compile(
    r"\b(?:DeepSeek|Qwen|Kimi|GLM|Llama|gpt-oss|GPT|Mixtral|Mistral|"
    r"MiniMax|Gemma|Nemotron|Claude|Gemini|Grok)[\w .-]{0,3}[\w.-]*",
    re.IGNORECASE,
)
_SIZE = re.compile(r"(?i)\d[bmt]\b")
_ACTIVE = re.compile(r"(?i)\bactiv\w+|per token")
_ACTIVATES = re.compile(
    r"(?i)(?<!\d[BT] )\bactiv\w+\s(?:param\w*\s?)?(?:of |only |just |about |around |is |: ?|= ?|\()?[~≈]?$"
)
_MEMORY = re.compile(r"(?i)^\s?(?:of\s)?(?:HBM\w*|memory|VRAM|each|,|\)|per GPU|/GPU)")


def detect(context: Context) -> Iterator[Relation]:
    for sentence in context.sentences:
        model = model_in(sentence.text)
        if model is not None:
            yield from _of_model(sentence, model)
        yield from _of_gpus(sentence)
    for table in context.document.tables:
        for row in table.body:
            for cell in row:
                model = model_in(table.header(cell.column))
                if model is not None and cell.block.index >= 0:
                    yield from _of_model(_whole(cell.block, context), model)


def _whole(block: Block, context: Context) -> Sentence:
    return Sentence(block, 0, len(block.text), context.numbers(block))


@cache
def _names() -> tuple[tuple[re.Pattern[str], Model], ...]:
    """Spellings of every known model: its title and full aliases, hyphen or blank between the parts; a
    family's name without the size names no member.
    """
    found = []
    for model in models():
        spelled = {model.title, *(a for a in model.aliases if len(a) > 4 and "/" not in a)}
        if _SIZE.search(model.title):
            spelled = {s for s in spelled if _SIZE.search(s)}
        words = "|".join(re.escape(s).replace(r"\-", r"[- ]") for s in sorted(spelled, key=len, reverse=True))
        found.append((re.compile(rf"(?i)(?<![\w-])(?:{words})(?![\w-]|\.\d)"), model))
    return tuple(found)


def model_in(text: str) -> Model | None:
    """The one known model a text names; None where another model is named too."""
    found = [(match, model) for pattern, model in _names() for match in pattern.finditer(text)]
    if len({model.name for _, model in found}) != 1:
        return None
    others = [
        m for m in _MODELISH.finditer(text) if not any(f.start() <= m.start() < f.end() for f, _ in found)
    ]
    return None if others else found[0][1]


@cache
def _counts(name: str) -> Mapping[str, float]:
    model = next(m for m in models() if m.name == name)
    stated = model.stated
    try:
        passes = passes_of(model)
    except K3Error:
        passes = None
    total = (stated and stated.parameters) or (passes and passes.parameters) or 0
    active = (stated and stated.active_parameters) or (passes and passes.active) or 0
    return {"total": float(total), "active": float(active)}


def parameters_of(name: str, *, active: bool = False) -> float:
    """Parameters of a known model, all or those active a token; 0 where neither spec nor shapes say."""
    return _counts(name)["active" if active else "total"]


def _kind(sentence: Sentence, number: Printed) -> str:
    """Whether a number of parameters is of those active a token or of all; empty for another number. In a
    list (`405B, 70B parameters`) the last alone has the unit.
    """
    bare = not number.unit and re.search(r"\d[BT]$", number.text)
    if number.value <= 10**8 or not (bare or number.unit == "parameter"):
        return ""
    if re.search(r"(?i)\btotal\b", number.qualifier):
        return "total"
    after = re.split(r"\d|[,;(/]", sentence.after(number)[:18])[0]
    active = _ACTIVE.search(number.qualifier + after) or _ACTIVATES.search(sentence.before(number))
    return "active" if active else "total"


def _of_model(sentence: Sentence, model: Model) -> Iterator[Relation]:
    kinds = [_kind(sentence, number) for number in sentence.numbers]
    for number, kind in zip(sentence.numbers, kinds, strict=True):
        said, after = number.text.lower(), sentence.after(number)
        if kind and (number.unit != "parameter" or (kind == "total" and kinds.count("total") > 1)):
            continue
        if kind:
            true = _counts(model.name)[kind]
            unread = model.vocab_size * model.hidden_size if kind == "active" else 0
            yield from _fact(number, model.title, f"{kind} parameters", true, low=true - unread)
        elif number.unit == "expert" and model.moe and re.search("routed", number.qualifier):
            yield from _fact(number, model.title, "routed experts", model.moe.experts, exact=True)
        elif (
            number.unit == "layer"
            and said.endswith("-layer")
            and re.match(r"\s(?:network|model|transformer|stack|decoder|architecture)", after)
        ):
            yield from _fact(number, model.title, "layers", model.num_layers, exact=True)
        elif (
            model.moe
            and not number.unit
            and re.match(r"\s(?:experts? )?(?:active|activated)(?: experts?)? per token", after)
        ):
            yield from _fact(number, model.title, "experts a token", model.moe.top_k, exact=True)
        elif (
            number.unit == "tokens"
            and model.max_positions
            and re.match(r"\s?(?:context|of context)\b", after)
        ):
            yield from _fact(replace(number, hedge=""), model.title, "tokens of context", model.max_positions)


def _fact(
    number: Printed, name: str, what: str, true: float, *, low: float | None = None, exact: bool = False
) -> Iterator[Relation]:
    """One number against what is true; from `low` on where sources count differently."""
    if not true or number.hedge in ("at-most", "over", "at-least", "within"):
        return
    value = Fraction(true) / number.measure.factor if number.unit == "%" else Fraction(true)
    least = value if low is None else value * Fraction(low) / Fraction(true)
    slack = Fraction(0) if exact else value * _SLACK
    says = f"{show(number)} as {what} of {name}"
    reckoning = Reckoning(f"spec: {float(value):,.6g}", Span(least - slack, value + slack))
    relation = relate("fact", number, (), [reckoning], says, claimed=number.wide)
    if relation is not None:
        yield relation


@cache
def _platforms() -> tuple[tuple[re.Pattern[str], Platform], ...]:
    return tuple(
        (re.compile(rf"(?<![\w-]){re.escape(p.title)}(?:\sGPUs?)?(?=\s?\()"), p) for p in platforms()
    )


def _of_gpus(sentence: Sentence) -> Iterator[Relation]:
    for pattern, platform in _platforms():
        for match in pattern.finditer(sentence.text):
            start = sentence.start + match.end()
            closing = sentence.block.text.find(")", start)
            if 0 <= closing - start <= 80:
                inside = [n for n in sentence.numbers if start < n.start < closing]
                yield from _gpu_facts(sentence, platform, inside)


def _gpu_facts(sentence: Sentence, platform: Platform, inside: list[Printed]) -> Iterator[Relation]:
    for number in inside:
        if number.unit in ("GB", "GiB") and _MEMORY.match(sentence.after(number)) and not number.hedge:
            true = Fraction(platform.nominal_hbm_gb)
            factor = number.measure.factor
            says = f"{show(number)} as memory of {platform.title}"
            low, high = true * 10**9 * _OFFERED, true * 2**30
            relation = relate(
                "fact", number, (), [Reckoning(f"spec: {platform.nominal_hbm_gb} GB", Span(low, high))], says
            )
            if relation is not None and factor:
                yield relation
        elif number.unit == "TB/s":
            yield from _bandwidth(number, platform)


def _bandwidth(number: Printed, platform: Platform) -> Iterator[Relation]:
    true = Fraction(platform.hbm_bytes_per_s)
    says = f"{show(number)} as memory bandwidth of {platform.title}"
    span = Span(true * Fraction(95, 100), true * Fraction(105, 100))
    relation = relate("fact", number, (), [Reckoning(f"spec: {float(true) / 1e12:g} TB/s", span)], says)
    if relation is not None:
        yield relation
