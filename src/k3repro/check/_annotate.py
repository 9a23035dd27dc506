"""A copy of the document as one HTML page: both places of every relation marked, the arithmetic beside
them.
"""

from __future__ import annotations

from collections import defaultdict
from html import escape

from k3repro.check._check import Checked
from k3repro.check._document import Block, Document, Table
from k3repro.check._relation import Relation
from k3repro.check._report import fix_of, interval

__all__ = ["annotated"]

_STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1b1f24}
table{border-collapse:collapse;margin:1rem 0}td,th{border:1px solid #ccd;padding:.2rem .5rem;text-align:left}
mark{background:#d8f0d8;border-radius:3px}mark.differs{background:#ffd0cc;outline:2px solid #b3261e}
mark.suppressed{background:#eee}
.note{border-left:4px solid #b3261e;background:#fff4f3;padding:.4rem .8rem;margin:.3rem 0;font-size:90%}
a{color:inherit}pre{overflow:auto;background:#f5f6f8;padding:.6rem}.meta{color:#57606a}
"""
_TAGS = {"title": "h1", "heading": "h2", "item": "li", "output": "pre", "code": "pre"}


def annotated(checked: Checked) -> str:
    """A self-contained page without scripts; every mark links to its relation and back."""
    document = checked.document
    marks: dict[int, list[tuple[int, int, Relation]]] = defaultdict(list)
    for relation in checked.relations:
        for number in relation.printed:
            marks[number.block.index].append((number.start, number.end, relation))
    body = "\n".join(_parts(checked, marks))
    tally = checked.counts
    head = (
        f"<p class='meta'>{tally['relations']} relations tested, "
        f"{tally['holds']} hold, {tally['differs']} differ.</p>"
    )
    return (
        f"<!doctype html><html lang='en'><head><meta "
        f"charset='utf-8'><title>Checked: {escape(document.path)}</title>"
        f"<style>{_STYLE}</style></head><body>{head}{_index(checked)}<hr>{body}</body></html>\n"
    )


def _index(checked: Checked) -> str:
    rows = [
        f"<div class='note' id='{r.id}'>{_note(r)} <a href='#at-{r.id}'>place</a></div>"
        for r in checked.findings
    ]
    return "".join(rows) or "<p>No finding.</p>"


def _note(relation: Relation) -> str:
    claim = relation.claim
    text = (
        f"{relation.says}: {relation.reckoning.formula} = {interval(relation.reckoning.derived, claim)}, "
        f"printed {claim.text} is {interval(relation.claimed, claim)}"
    )
    text += f"; perhaps: {relation.slip}" if relation.slip else ""
    text += f"; would hold: {fix_of(relation)}" if fix_of(relation) else ""
    return f"{escape(text)} <code>{relation.id}</code>"


def _parts(checked: Checked, marks: dict[int, list[tuple[int, int, Relation]]]) -> list[str]:
    document: Document = checked.document
    tables = defaultdict(list)
    for table in document.tables:
        tables[table.after].append(table)
    anchored: set[str] = set()
    parts = [_table(table, checked, marks, anchored) for table in tables[-1]]
    for block in document.blocks:
        if block.kind != "cell":
            tag = _TAGS.get(block.kind, "p")
            parts.append(f"<{tag}>{_marked(block, checked, marks, anchored)}</{tag}>")
        parts += [_table(table, checked, marks, anchored) for table in tables[block.index]]
    return parts


def _table(
    table: Table, checked: Checked, marks: dict[int, list[tuple[int, int, Relation]]], anchored: set[str]
) -> str:
    rows = []
    for row in table.grid:
        tag = "th" if row and row[0].head else "td"
        rows.append(
            "<tr>"
            + "".join(f"<{tag}>{_marked(c.block, checked, marks, anchored)}</{tag}>" for c in row)
            + "</tr>"
        )
    return f"<table>{''.join(rows)}</table>"


def _marked(
    block: Block, checked: Checked, marks: dict[int, list[tuple[int, int, Relation]]], anchored: set[str]
) -> str:
    """The block's text; where marks overlap the one of a finding wins."""
    spans = sorted(marks.get(block.index, ()), key=lambda m: (m[2].verdict != "differs", m[0]))
    chosen: list[tuple[int, int, Relation]] = []
    for start, end, relation in spans:
        if all(end <= s or start >= e for s, e, _ in chosen):
            chosen.append((start, end, relation))
    parts, at = [], 0
    for start, end, relation in sorted(chosen, key=lambda m: m[0]):
        kind = "suppressed" if checked.reason(relation) else relation.verdict
        anchor = "" if relation.id in anchored else f" id='at-{relation.id}'"
        anchored.add(relation.id)
        link = f"<a href='#{relation.id}'>" if kind == "differs" else "<a>"
        parts.append(
            f"{escape(block.text[at:start])}<mark class='{kind}'{anchor} "
            f"title='{escape(relation.says, quote=True)}'>{link}{escape(block.text[start:end])}</a></mark>"
        )
        at = end
    return "".join(parts) + escape(block.text[at:])
