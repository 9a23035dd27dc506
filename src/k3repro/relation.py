"""How a printed or measured number stands to one that is predicted or simulated: worked out, never typed.

What a predictor was set to is observed (`store.reads_of`). Which printed figures follow from others is said
by a study, as arithmetic. The catalog's view `relation` holds the answer for every printed cell.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from k3repro.store import Artifact, Col, Row, cell_key

__all__ = [
    "CIRCULAR",
    "FORMULA",
    "HELD_OUT",
    "INDEPENDENT",
    "IN_SAMPLE",
    "NOTHING",
    "RELATIONS",
    "SAME_LAW",
    "Cell",
    "Follows",
    "Related",
    "cells_of",
    "relation_of",
    "relation_rows",
]

IN_SAMPLE: Final = "in-sample"
SAME_LAW: Final = "same-law"
HELD_OUT: Final = "held-out"
INDEPENDENT: Final = "independent"
RELATIONS = (IN_SAMPLE, SAME_LAW, HELD_OUT, INDEPENDENT)
CIRCULAR = frozenset({IN_SAMPLE, SAME_LAW})
NOTHING = "nothing"
"""The predictor of what was set to no printed cell: a measurement, or a law without a fitted constant."""

FORMULA = "formula"
"""The predictor that is the publication's own formula, evaluated by us."""

Cell = tuple[str, str, str, str]
"""(name@subject of a transcription, table, key joined by /, column)."""


class Related(Row, table="relation", key=("predictor", "source", "table", "key", "column")):
    """How each printed cell stands to what a predictor says of it."""

    predictor: Annotated[str, Col(doc="`twin`; `nothing`: set to no cell; `formula`: the printed one")]
    source: Annotated[str, Col(doc="name@subject of the transcription")]
    table: str
    key: Annotated[str, Col(doc="values of the table's key, joined by /")]
    column: str
    relation: str | None
    circular: Annotated[bool | None, Col(doc="in-sample or same-law: a difference says nothing")]
    follows: Annotated[str | None, Col(doc="printed cells it repeats or follows from; NULL: stands alone")]
    counts: Annotated[
        bool | None, Col(doc="is evidence of its own: neither circular nor a repeat of another cell")
    ]


@dataclass(frozen=True, slots=True)
class Follows:
    """A printed cell that is arithmetic on others: a ratio, a repeat in another table, a point of a law."""

    cell: Cell
    of: tuple[Cell, ...]


def relation_of(*, fitted: bool, used: bool, one_law: bool = False) -> str:
    """The relation of a printed or measured number to a predicted one.

    fitted: the predictor was set to printed numbers at all. used: to this one. one_law: one formula gives
    both, or this one follows from numbers the predictor was set to.
    """
    if used:
        return IN_SAMPLE
    if one_law:
        return SAME_LAW
    return HELD_OUT if fitted else INDEPENDENT


def cells_of(artifact: Artifact) -> Iterator[Cell]:
    """Every number of a transcription that is no key, none that is not printed."""
    source = f"{artifact.name}@{artifact.subject}"
    for table in artifact.schema.tables:
        names = [c.name for c in table.columns if c.scalar in ("DOUBLE", "INT64") and c.name not in table.key]
        for row in artifact.rows(table.name):
            key = cell_key(table, row)
            yield from ((source, table.name, key, name) for name in names if row[name] is not None)


def relation_rows(
    used: Mapping[str, Iterable[Cell]], printed: Sequence[Artifact], follows: Iterable[Follows]
) -> list[Related]:
    """Rows of table `relation`: every printed cell for every predictor of `used`, and for `NOTHING`.

    A cell that follows from cells the predictor was set to is one law with them; one that follows from others
    repeats them and counts no second time.
    """
    arithmetic = {item.cell: item.of for item in follows}
    cells = [cell for artifact in printed for cell in cells_of(artifact)]
    rows = []
    for predictor, known in {NOTHING: (), FORMULA: (), **used}.items():
        taken = set(known)
        for cell in cells:
            of = arithmetic.get(cell, ())
            relation = relation_of(
                fitted=bool(taken),
                used=cell in taken,
                one_law=predictor == FORMULA or (bool(of) and taken.issuperset(of)),
            )
            rows.append(
                Related(
                    predictor=predictor, source=cell[0], table=cell[1], key=cell[2],
                    column=cell[3], relation=relation, circular=relation in CIRCULAR,
                    follows=_said(of),
                    counts=relation not in CIRCULAR and not of,
                )
            )  # fmt: skip
    return rows


def _said(of: Sequence[Cell]) -> str | None:
    return "; ".join(f"{table} {key} {column}" for _, table, key, column in of) or None
