"""Two versions of one study, number by number: what changed by how much, what came, what went.

Ledgers are matched by claim id; documents by aligning their numerals on the words around them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from fractions import Fraction
from typing import Any

from k3repro.claims._audit import Verdict, audit_ledger
from k3repro.claims._claim import Claim, Ledger
from k3repro.claims._source import Located, Source
from k3repro.printed import value_of

__all__ = ["Change", "diff_ledgers", "diff_sources"]


@dataclass(frozen=True, slots=True)
class Change:
    """One number in two versions; `kind` is same, changed, unit, added or removed."""

    id: str
    kind: str
    old: str = ""
    new: str = ""
    unit: str = ""
    ratio: float | None = None
    verdicts: tuple[str, str] = ("", "")
    places: tuple[str, str] = ("", "")

    def as_dict(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "kind": self.kind,
            "old": self.old,
            "new": self.new,
            "unit": self.unit,
            "ratio": self.ratio,
            "old_verdict": self.verdicts[0],
            "new_verdict": self.verdicts[1],
            "old_place": self.places[0],
            "new_place": self.places[1],
        }


def diff_ledgers(old: Ledger, new: Ledger) -> list[Change]:
    """Claims of both ledgers by id, with the verdicts each got from its own document."""
    before = {verdict.claim.id: verdict for verdict in audit_ledger(old) if not verdict.claim.same}
    after = {verdict.claim.id: verdict for verdict in audit_ledger(new) if not verdict.claim.same}
    names = [*before, *(name for name in after if name not in before)]
    return [_change(name, before.get(name), after.get(name)) for name in names]


def _change(name: str, old: Verdict | None, new: Verdict | None) -> Change:
    if old is None or new is None:
        only = old or new
        assert only is not None
        text, place, verdict = _print(only.claim), only.claim.place, only.verdict
        if old is None:
            return Change(name, "added", new=text, verdicts=("", verdict), places=("", place))
        return Change(name, "removed", old=text, verdicts=(verdict, ""), places=(place, ""))
    a, b = old.claim, new.claim
    kind, ratio = "unit", None
    if a.unit.dimension == b.unit.dimension:
        first, second = a.value * a.unit.factor, b.value * b.unit.factor
        kind = "same" if first == second or a.span().intersects(b.span()) else "changed"
        ratio = float(Fraction(second) / Fraction(first)) if first else None
    return Change(
        name, kind, _print(a), _print(b), b.unit.name, ratio, (old.verdict, new.verdict), (a.place, b.place)
    )


def _print(claim: Claim) -> str:
    return f"{claim.printed} {claim.unit}".strip()


def diff_sources(old: Source, new: Source) -> list[Change]:
    """Numerals of two documents, aligned by the words before and after each."""
    return list(_aligned(old.located, new.located))


def _aligned(old: tuple[Located, ...], new: tuple[Located, ...]) -> Iterator[Change]:
    matcher = SequenceMatcher(
        None, [_words(item) for item in old], [_words(item) for item in new], autojunk=False
    )
    for operation, a, b, c, d in matcher.get_opcodes():
        paired = min(b - a, d - c) if operation in ("equal", "replace") else 0
        for one, two in zip(old[a : a + paired], new[c : c + paired], strict=True):
            if operation == "equal" or one.token == two.token or _near(one, two):
                yield _pair(one, two)
            else:
                yield Change(one.place, "removed", old=one.token, places=(one.place, ""))
                yield Change(two.place, "added", new=two.token, places=("", two.place))
        for item in old[a + paired : b]:
            yield Change(item.place, "removed", old=item.token, places=(item.place, ""))
        for item in new[c + paired : d]:
            yield Change(item.place, "added", new=item.token, places=("", item.place))


def _pair(one: Located, two: Located) -> Change:
    first, second = value_of(one.token), value_of(two.token)
    kind = "same" if one.token == two.token else "changed" if first != second else "same"
    ratio = float(second / first) if first else None
    return Change(one.place, kind, one.token, two.token, ratio=ratio, places=(one.place, two.place))


def _words(item: Located) -> str:
    before = re.findall(r"[^\W\d]+", item.before)[-3:]
    after = re.findall(r"[^\W\d]+", item.following)[:2]
    return " ".join([*before, "#", *after]).lower()


def _near(one: Located, two: Located) -> bool:
    return SequenceMatcher(None, _words(one), _words(two)).ratio() > 0.6
