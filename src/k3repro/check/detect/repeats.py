"""One statement printed more than once: title, summary, headings and conclusions against each other and the
text.

Precondition: the prints have one key: a factor or percentage with the same words after it, a metric among
them (`2.5x higher goodput`); a factor `for` one name; a rate per GPU of one model or with one adjective
(`25K total TPS/GPU`). Prints in whose paragraphs different names stand are not compared. One differs only
where at least two others agree and no third value is printed, or where it stands in a title, summary or
heading, nothing else in the document supports it, and something does support the other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from k3repro.check._document import Block
from k3repro.check._lexer import Printed
from k3repro.check._relation import Reckoning, Relation, relate
from k3repro.check._text import Context, Sentence, metrics_in, show
from k3repro.printed import Span

__all__ = ["apart", "detect", "names_in"]

_STOP = re.compile(
    r"(?i)^(?:on|in|at|with|while|and|compared|than|by|from|to|for|of|per|using|across|over|"
    r"versus|vs|as|when|under|via|through|that|which|is|are|was|but|or|a|an|the|relative)$"
)
_NAME = re.compile(
    r"\b(?:[A-Z][A-Za-z]*[-.]?\d[\w.-]*|[A-Z]{2,}[\w-]*|[A-Z][a-z]+[A-Z]\w*|[A-Z][a-z]+\s[A-Z\d])(?=\W|$)"
)
_MODE = re.compile(
    r"(?i)\b(?:mean|median|p\d{2}|average|peak|prefill|decode|read|write|output|input|total|"
    r"burst|offline|online|short|long|low|high|single|multi|without|disabled|enabled)\b"
)
_ORDINARY = frozenset(
    [
        "GPU",
        "GPUS",
        "LLM",
        "LLMS",
        "TL",
        "DR",
        "SLA",
        "SLO",
        "KV",
        "API",
        "CPU",
        "AI",
        "ML",
        "HBM",
        "TTFT",
        "TPOT",
        "ITL",
        "ISL",
        "OSL",
        "SLOS",
        "NVIDIA",
        "AMD",
    ]
)
_FOR = re.compile(r"^\s?(?:[a-z]+\s){0,3}?for\s(?P<name>[A-Z][\w.-]*\d[\w.-]*)")
_WORD = re.compile(r"\s?([A-Za-z][\w/-]*)")


_MANY = 3  # so many prints that agree are of one thing whatever else their sentences say


@dataclass(frozen=True, slots=True)
class _Print:
    number: Printed
    names: frozenset[str]  # of its paragraph
    near: frozenset[str]  # of its sentence
    modes: frozenset[str]

    def compatible(self, other: _Print, *, modes: bool = True) -> bool:
        """Whether two prints may be of one thing; without `modes` only models and GPUs keep them apart."""
        mine, others = (self.names, other.names) if modes else (_numbered(self.names), _numbered(other.names))
        if apart(mine, others):
            return False
        return not modes or not ((self.modes - other.modes) and (other.modes - self.modes))


def _numbered(names: frozenset[str]) -> frozenset[str]:
    return frozenset(name for name in names if any(c.isdigit() for c in name) and " " not in name)


def apart(names: frozenset[str], others: frozenset[str]) -> bool:
    """Whether two sets of names each hold one that the other lacks."""
    return _missing(names, others) and _missing(others, names)


def _missing(names: frozenset[str], others: frozenset[str]) -> bool:
    """Whether a name has no fuller or shorter form among the others: `Qwen3.5` is `Qwen3.5-397B`."""
    return any(not any(n.startswith(o) or o.startswith(n) for o in others) for n in names)


def detect(context: Context) -> Iterator[Relation]:
    groups: dict[tuple[str, ...], list[_Print]] = {}
    for sentence in context.sentences:
        for number in sentence.numbers:
            key = _key(sentence, number)
            if key:
                groups.setdefault(key, []).append(
                    _Print(
                        number, names_in(sentence.block.text), names_in(sentence.text), _modes(sentence.block)
                    )
                )
    for key, prints in groups.items():
        yield from _judge(key, prints, context)


def names_in(text: str) -> frozenset[str]:
    """Models, GPUs and configurations that a text names."""
    text = re.sub(r"https?://\S+", " ", text)
    return frozenset(
        n.rstrip(".-")
        for n in _NAME.findall(text)
        if n.upper() not in _ORDINARY and not re.fullmatch(r"v\d.*", n)
    )


def _modes(block: Block) -> frozenset[str]:
    return frozenset(m.lower() for m in _MODE.findall(block.text))


def _key(sentence: Sentence, number: Printed) -> tuple[str, ...]:
    after = sentence.after(number)
    if number.unit in ("x", "%") and not number.word:
        named = _FOR.match(after)
        if named and number.unit == "x":
            return ("for", number.unit, named.group("name").lower(), _role(sentence, number))
        words = _following(after)
        metric = metrics_in(" ".join(words))
        return ("words", number.unit, *words) if len(words) >= 2 and metric else ()
    if number.unit in ("tokens/s/GPU", "tokens/s/node") and number.qualifier:
        return (
            "rate",
            number.unit,
            " ".join(sorted(set(number.qualifier.lower().split()) - {"nvidia", "amd"})),
        )
    return ()


def _following(after: str) -> tuple[str, ...]:
    words: list[str] = []
    position = 0
    while len(words) < 4 and (match := _WORD.match(after, position)):
        if _STOP.match(match.group(1)):
            break
        words.append(match.group(1).lower().rstrip("s"))
        position = match.end()
    return tuple(words)


def _role(sentence: Sentence, number: Printed) -> str:
    """Low end of a range or the value itself: `1.69x to 2.00x for A` has its high end at A."""
    following = next((n for n in sentence.numbers if n.start >= number.end), None)
    low = following is not None and re.fullmatch(r"\s?(?:[-–—]|to)\s?", sentence.between(number, following))
    return "low" if low else "high"


def _judge(key: tuple[str, ...], prints: Sequence[_Print], context: Context) -> Iterator[Relation]:
    blocks = [p.number.block.index for p in prints]
    if len(prints) < 2 or len(set(blocks)) < 2:
        return
    clusters = _clusters(prints)
    if (
        len(clusters) > 2
        or (len(clusters) == 2 and min(map(len, clusters)) > 1)
        or _several_in_a_block(clusters)
    ):
        return
    large, small = (*sorted(clusters, key=len, reverse=True), [])[:2]
    modes = len(large) < _MANY
    for item in large[1:]:
        agreeing = [p for p in large if p is not item and p.compatible(item, modes=modes)]
        if len(agreeing) >= 2 or (agreeing and _headline(item) and _support(agreeing[0], context) >= 2):
            yield from _relation(item.number, agreeing[0].number)
    for odd in small:
        if _missing(_numbered(odd.near), frozenset().union(*(_numbered(p.names) for p in large))):
            continue
        others = [p for p in large if p.compatible(odd, modes=modes)]
        if len(others) >= 2 or (others and _unsupported(odd, others[0], context)):
            yield from _relation(odd.number, others[0].number)
        elif len(others) == len(large) == 1 and _unsupported(others[0], odd, context):
            yield from _relation(others[0].number, odd.number)


def _clusters(prints: Sequence[_Print]) -> list[list[_Print]]:
    clusters: list[list[_Print]] = []
    for item in prints:
        home = next((c for c in clusters if all(_agree(item.number, other.number) for other in c)), None)
        if home is None:
            clusters.append([item])
        else:
            home.append(item)
    return clusters


def _agree(a: Printed, b: Printed) -> bool:
    return a.span.intersects(b.span) or a.value == b.value


def _several_in_a_block(clusters: Sequence[Sequence[_Print]]) -> bool:
    """Whether one block prints two values under the key: then it has more than one meaning."""
    return any(
        {p.number.block.index for p in a} & {p.number.block.index for p in b}
        for i, a in enumerate(clusters)
        for b in clusters[i + 1 :]
    )


def _unsupported(odd: _Print, other: _Print, context: Context) -> bool:
    """Whether a headline stands alone in the document while the other print does not."""
    return _headline(odd) and _support(odd, context) == 1 and _support(other, context) >= 2


def _headline(item: _Print) -> bool:
    return item.number.block.lead or item.number.block.kind in ("title", "summary", "heading")


def _support(item: _Print, context: Context) -> int:
    """How many numbers of the document agree with a print, itself among them."""
    same = (n for r in context.readings.values() for n in r.numbers if n.dimension == item.number.dimension)
    return sum(_agree(n, item.number) for n in same)


def _relation(claim: Printed, reference: Printed) -> Iterator[Relation]:
    says = f"{show(claim)} is printed elsewhere as {show(reference)}"
    near = Span(
        min(claim.span.low, Fraction(claim.value) * claim.measure.factor),
        max(claim.span.high, claim.value * claim.measure.factor),
    )
    relation = relate(
        "repeat", claim, (reference,), [Reckoning(show(reference), reference.span)], says, claimed=near
    )
    if relation is not None:
        yield relation
