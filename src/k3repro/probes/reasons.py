"""Reasons of a verdict for people: what many rungs share is said once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

__all__ = ["told_once"]

_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


def told_once(reasons: Sequence[str]) -> list[str]:
    """Reasons that differ in their rung and numbers only, as one line: how many, where, and its numbers."""
    kinds: dict[tuple[str, bool], list[tuple[str, str]]] = {}
    for reason in reasons:
        rung, colon, text = reason.partition(": ")
        ours = bool(colon) and ("=" in rung or "-" in rung) and " " not in rung
        rung, text = (rung, text) if ours else ("", reason)
        kinds.setdefault((_NUMBER.sub("#", text), ours), []).append((rung, text))
    return [line for entries in kinds.values() for line in _told(entries)]


def _told(entries: Sequence[tuple[str, str]]) -> Iterator[str]:
    rungs, texts = [rung for rung, _ in entries if rung], [text for _, text in entries]
    if len(entries) == 1 or not rungs:
        yield from (f"{rung}: {text}" if rung else text for rung, text in dict.fromkeys(entries))
        return
    between = " to " if len(rungs) > 2 else ", "
    yield f"{len(rungs)} rungs ({rungs[0]}{between}{rungs[-1]}): {_spans(texts)}"


def _spans(texts: Sequence[str]) -> str:
    """The first text, each number of it as the span of that number over all."""
    columns = zip(*(_NUMBER.findall(text) for text in texts), strict=True)
    spans = iter([_span(column) for column in columns])
    return _NUMBER.sub(lambda _: next(spans), texts[0])


def _span(numbers: Sequence[str]) -> str:
    low, *_, high = sorted([*numbers, *numbers], key=lambda text: float(text.replace(",", "")))
    return low if float(low.replace(",", "")) == float(high.replace(",", "")) else f"{low} to {high}"
