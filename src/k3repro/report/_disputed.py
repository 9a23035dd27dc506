"""Printed numbers that the ledger of claims contradicts: known by document, number and unit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from k3repro.errors import GateFailed
from k3repro.printed import numerals, value_of
from k3repro.report._queries import ColumnSpec
from k3repro.report._sources import Citation, Sources

__all__ = ["claim_against", "prints_of"]

_COUNTS = frozenset({"request", "sequence", "session", "user"})
_LONGEST = 40  # characters of a text that is just a number and its unit


@dataclass(frozen=True, slots=True)
class Print:
    """One printing of a number: the verdict of its claim, and where the site shows it."""

    unit: str
    verdict: str
    claim: str
    place: str


def claim_against(
    sources: Sources, spec: ColumnSpec, row: Mapping[str, Any], cited: Citation, where: str
) -> str:
    """The place in the site of the claim by which the ledger contradicts a cell; empty where it does not.

    A query that names the claim (`disputed`) has the last word. Else a cell that is copied from a document,
    in a unit, is contradicted when that document's ledger contradicts every printing of it in that unit.

    Raises:
        GateFailed: the number alone does not tell: it has no unit, or another claim prints it too.
    """
    if spec.disputed:
        return str(row.get(spec.disputed) or "")
    shown = _number(row[spec.name], spec.unit or row.get("unit")) if cited.tier == "published" else None
    if shown is None:
        return ""
    prints = sources.made(["prints of claims"], lambda: prints_of(sources.claims))
    documents = {str(sources.artifacts[seal]["subject"]) for seal in cited.seals}
    same = [one for document in documents for one in prints.get((document, *shown), ())]
    against = [one for one in same if one.verdict == "contradicted"]
    if against and (not shown[1] or len(against) < len(same)):
        claims = ", ".join(dict.fromkeys(one.claim for one in same))
        raise GateFailed(
            f"{row[spec.name]} may be a number that the ledger contradicts ({claims})",
            where=where,
            fix="Say which claim it is: `disputed` names a column of contradicted(subject, 'CLAIM').",
        )
    return next((one.place for one in against if one.place), "")


def prints_of(claims: Iterable[Mapping[str, Any]]) -> dict[tuple[str, float, str], list[Print]]:
    """Every printing of a claim, by document, number and unit."""
    found: dict[tuple[str, float, str], list[Print]] = {}
    for row in claims:
        shown = _number(row["printed"], row["unit"])
        place = f"claims/{row['subject']}/{row['section']}.html#{row['page']}" if row["page"] else ""
        if shown:
            one = Print(shown[1], row["verdict"], row["same"] or row["claim"], place)
            found.setdefault((row["subject"], *shown), []).append(one)
    return found


def _number(value: Any, unit: str | None) -> tuple[float, str] | None:
    """A number and the unit it counts in; of a text only where it is all that stands there."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value), _plain(unit or "")
    if not isinstance(value, str) or len(value) > _LONGEST:
        return None
    found = numerals(value.replace("\N{MINUS SIGN}", "-"))
    if len(found) != 1:
        return None
    before, _, after = value.partition(found[0].token)
    words = after.split()
    if len(words) > 1 or before.strip(" ~").lower() not in {"", "about", "within", "near", "over"}:
        return None
    return float(value_of(found[0].token)), _plain(words[0] if words else unit or "")


def _plain(unit: str) -> str:
    """What is counted: `GiB/GPU` is GiB, `token` is tokens, requests are plain counts, a rate stays one."""
    counted, _, per = unit.partition("/")
    name = counted.rstrip("s") if len(counted) > 1 else counted
    return f"{name}/{per}" if per == "s" else "" if name in _COUNTS else name
