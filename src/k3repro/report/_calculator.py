"""The capacity model as a form: laws and launches from one query, answers computed in the page.

The whole form is made again by the verifier: inputs, defaults, laws and what each answer names as its source.
Answers stand in `<output data-live>`, empty when built. `assets/k3-calculator.js` fills them and evaluates
every law as it is stored (`assets/k3-law.js`); outside a law's calibrated range it says so.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from k3repro.errors import GateFailed, InputError
from k3repro.report._formats import machine_value
from k3repro.report._markup import attributes, escape, script_json
from k3repro.report._queries import ColumnSpec
from k3repro.report._sources import Sources
from k3repro.report._values import badge, cell_attributes

__all__ = ["calculator_html"]

_CHOICES = ("platform", "caching")
_LAWS = ("law", "pool_law", "wall")
_FACTS = ("pool_bytes", "slots", "max_model_len", "decode_nodes", "prefill_nodes")
# name, label, unit, the column of its default, whether a reader may leave it empty
_INPUTS = (
    ("context", "Context of a request, prompt and reply", "tokens", "default_context", False),
    ("concurrency", "Requests in flight", "requests", "default_concurrency", False),
    ("reply", "Reply length", "tokens", "default_reply", False),
    ("pool_bytes", "KV pool of a GPU", "bytes", "pool_bytes", False),
    ("slots", "Slots of a decode pool", "requests", "slots", False),
    ("latency", "Latency limit", "s", "", True),
    ("price", "Price of a node-hour", "currency of your choice", "", True),
)
# name, label, unit, the columns that it rests on
# What stands open; the rest is folded.
_ASKED_FIRST = ("platform", "context", "concurrency")
_SAID_FIRST = ("verdict", "nodes", "binds", "reasons")
_ANSWERS = (
    ("verdict", "Does it hold?", "", ("law", "max_model_len", "wall")),
    ("effective", "Requests that fit a decode pool", "", ("law", "slots", "max_model_len")),
    ("binds", "What binds", "", ("law", "slots", "max_model_len")),
    ("block", "by blocks", "", ("law",)),
    ("pool", "by bytes a token, as printed", "", ("pool_law",)),
    ("limit", "by slots", "", ("slots",)),
    ("pools", "Decode pools", "", ("law", "slots", "max_model_len")),
    ("nodes", "Nodes, with one prefill pool", "", ("law", "slots", "decode_nodes", "prefill_nodes")),
    ("wall", "A request alone takes", "s", ("wall",)),
    ("cost", "Cost of an hour", "", ("law", "slots", "decode_nodes", "prefill_nodes")),
    ("reasons", "Why", "", ("law", "pool_law", "slots", "max_model_len", "wall")),
)


def calculator_html(sources: Sources, query: str) -> str:
    """`<form class="k3-calculator" data-query>`: what audit re-creates from the artifacts.

    Raises:
        InputError: no row, a column is missing, or a law that is no JSON. GateFailed: a row cites nothing.
    """
    place = f"calculator {query}"
    result = sources.result(query)
    needed = {*_CHOICES, *_LAWS, *_FACTS, *(default for *_, default, _ in _INPUTS if default)}
    if not result.rows or not needed <= set(result.columns):
        missing = sorted(needed - set(result.columns)) or ["rows"]
        raise InputError(
            f"the calculator's query returns no {missing[0]}", where=place, fix="See docs/report.md."
        )
    choices = [tuple(row[name] for name in _CHOICES) for row in result.rows]
    if twice := next((each for each in choices if choices.count(each) > 1), None):
        raise InputError(
            f"several rows are about {' and '.join(map(str, twice))}", where=place, fix="One row a choice."
        )
    if bare := next((d for *_, d, free in _INPUTS if d and not free and result.rows[0][d] is None), ""):
        raise InputError(f"the first row has no {bare}", where=place, fix="A form opens with an answer.")
    fields = {name: _choice(result.rows, name, result.query.column(name).label) for name in _CHOICES}
    fields |= {entry[0]: _input(result.rows[0], *entry) for entry in _INPUTS}
    answers = {
        entry[0]: _answer(sources, result.rows, result.query.columns, place, *entry) for entry in _ANSWERS
    }
    laws = script_json(_data(result.rows, place))
    pairs: dict[str, object] = {
        "class": "k3-calculator",
        "id": query,
        "data-query": query,
        "autocomplete": "off",
    }
    return (
        f"<form{attributes(pairs)}><p>Answers need scripts; without them, k3repro capacity size answers in a "
        "terminal.</p>"
        f"<fieldset><legend>Your workload</legend>{_folded(fields, _ASKED_FIRST, 'More to set')}</fieldset>"
        f'<div class="k3-answers">{_folded(answers, _SAID_FIRST, "More answers", "dl")}</div>'
        f'<script type="application/json" class="k3-laws">{laws}</script></form>'
    )


def _folded(parts: Mapping[str, str], first: Sequence[str], more: str, tag: str = "") -> str:
    """The parts that stand open, and the others in a fold."""

    def group(names: Iterable[str]) -> str:
        inner = "".join(parts[name] for name in names)
        return f"<{tag}>{inner}</{tag}>" if tag else inner

    rest = group(name for name in parts if name not in first)
    return f"{group(first)}<details><summary>{more}</summary>{rest}</details>"


def _data(rows: Sequence[Mapping[str, Any]], place: str) -> list[dict[str, Any]]:
    """What the script reads: laws as trees, facts and defaults as numbers."""
    defaults = tuple(default for *_, default, _ in _INPUTS if default)
    try:
        return [
            {name: row[name] for name in (*_CHOICES, *_FACTS, *defaults)}
            | {name: json.loads(row[name]) if row[name] else None for name in _LAWS}
            for row in rows
        ]
    except ValueError as error:
        raise InputError(
            f"a law is no JSON: {error}", where=place, fix="Return the artifact's own text."
        ) from None


def _choice(rows: Sequence[Mapping[str, Any]], name: str, label: str) -> str:
    values = dict.fromkeys(str(row[name]) for row in rows)
    options = "".join(f"<option{attributes({'value': value})}>{escape(value)}</option>" for value in values)
    return f"<label>{escape(label)} <select{attributes({'name': name})}>{options}</select></label>"


def _input(row: Mapping[str, Any], name: str, label: str, unit: str, default: str, optional: bool) -> str:
    pairs: dict[str, object] = {
        "name": name,
        "inputmode": "decimal",
        "value": machine_value(row[default]) if default else "",
        "required": "" if optional else "required",
    }
    named = f'{escape(label)} <span class="k3-unit">({escape(unit)})</span>'
    return f"<label>{named} <input{attributes(pairs)}></label>"


def _answer(
    sources: Sources, rows: Sequence[Mapping[str, Any]], columns: Mapping[str, ColumnSpec], place: str,
    name: str, label: str, unit: str, rests_on: Sequence[str],
) -> str:  # fmt: skip
    """One answer, with the artifacts behind it, whatever the reader chooses."""
    cited = [
        sources.cite(row, columns.get(column) or ColumnSpec(column, column), place)
        for row in rows
        for column in rests_on
    ]
    seals = tuple(sorted({seal for cite in cited for seal in cite.seals}))
    if not seals:
        raise GateFailed("an answer without an artifact", where=place)
    whole = sources.cite({"seal": list(seals)}, ColumnSpec("seal", "seal"), place)
    pairs: dict[str, object] = {
        "data-live": name,
        "data-column": " ".join(rests_on),
        "data-unit": unit,
        **cell_attributes(whole),
        "tabindex": "0",
    }
    output = f"<output{attributes(pairs)}></output> {badge(whole.tier, whole.basis)}"
    return f"<div><dt>{escape(label)}</dt><dd>{output}</dd></div>"
