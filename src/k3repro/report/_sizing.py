"""Sizing as a form: deployments simulated ahead from one query, chosen in the page as the command chooses.

The form and its data are made again by the verifier: inputs, the grid, and what each answer names as its
source. Answers stand in `<output data-live>`, empty when built; `assets/k3-sizing.js` fills them and draws
the steps, from a data file that comes when the form does into view.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from k3repro.errors import InputError
from k3repro.report._figures import empty_html
from k3repro.report._markup import attributes, escape, script_json
from k3repro.report._queries import ColumnSpec
from k3repro.report._sources import Sources
from k3repro.report._values import badge, cell_attributes

__all__ = ["grid_name", "grid_text", "sizing_html"]

_POINT = ("isl", "osl", "users")
_COLUMNS = (
    "replicas", "prefill_pools", "decode_pools", "max_num_seqs", "nodes",
    "ttft_s_p50", "ttft_s_p95", "tpot_ms_p50", "tpot_ms_p95", "e2e_s_p50", "e2e_s_p95",
    "tokens_per_s", "out_tokens_per_s", "ttft_factor", "tpot_factor", "e2e_factor",
    "ttft_worst", "tpot_worst", "e2e_worst", "binds_ttft", "binds_e2e",
)  # fmt: skip
_CODED = _COLUMNS[-8:]  # few distinct values: by number
# name, label, unit, whether it may be left empty, whether it is folded away
_INPUTS = (
    ("isl", "Prompt (ISL)", "tokens", False, False),
    ("osl", "Reply (OSL)", "tokens", False, False),
    ("users", "Users, one request each at a time", "", False, False),
    ("ttft", "First token within", "s", True, False),
    ("e2e", "Whole request within", "s", True, False),
    ("tpot", "Time per output token at most", "ms", True, True),
)
_ANSWERS = (
    ("nodes", "nodes"), ("verdict", "Answer"), ("surer", "Surer"), ("shape", "Deployment"),
    ("ttft", "First token"), ("tpot", "Time per output token"), ("e2e", "Whole request"),
    ("rate", "Throughput"), ("binds", "Binds"), ("cost", "Cost of an hour"), ("reason", "Note"),
)  # fmt: skip


def sizing_html(sources: Sources, query: str) -> str:
    """`<form class="k3-sizing" data-query>`: what audit re-creates from the artifacts.

    Raises:
        InputError: a column is missing. GateFailed: a row cites nothing.
    """
    place, result = f"sizing {query}", sources.result(query)
    if not result.rows:
        return empty_html(result.query.empty, "Deployments simulated ahead.")
    if missing := sorted({"platform", *_POINT, *_COLUMNS} - set(result.columns)):
        raise InputError(f"its query returns no {missing[0]}", where=place, fix="See docs/report.md.")
    platforms = list(dict.fromkeys(str(row["platform"]) for row in result.rows))
    cited = {name: [r for r in result.rows if r["platform"] == name][:1] for name in platforms}
    fields = "".join(_input(*entry) for entry in _INPUTS if not entry[-1])
    folded = "".join(_input(*entry) for entry in _INPUTS if entry[-1])
    folded += _choice("percentile", "Limits hold at percentile", ("p95", "p50"))
    folded += "".join(
        _input(f"price_{name}", f"Node-hour of {name.upper()}", "$", True, True) for name in platforms
    )
    cards = "".join(_card(sources, name, cited[name], place) for name in platforms)
    pairs: dict[str, object] = {
        "class": "k3-sizing", "id": query, "data-query": query, "autocomplete": "off",
        "novalidate": "novalidate",
    }  # fmt: skip
    bare = f"<p>Answers need scripts. The same deployments stand in <code>data/{query}.csv</code>.</p>"
    return (
        f"<form{attributes(pairs)}>{bare}"
        f"<fieldset><legend>Your workload and limits</legend>{fields}"
        f"<details><summary>Advanced</summary>{folded}</details></fieldset>"
        f'<div class="k3-sizing-cards">{cards}</div><figure class="k3-steps" aria-live="off"></figure>'
        f'<p class="k3-sizing-said"><output data-live="same"></output> '
        f'<code><output data-live="command"></output></code></p>'
        "</form>"
    )


def grid_name(query: str) -> str:
    """Where the grid of a query stands in the site, once for every form that asks it."""
    return f"behind/grid/{query}.js"


def grid_text(sources: Sources, query: str) -> str:
    """The data file of a form: a script, so that it also loads from disk; nothing where no row is."""
    rows = sources.result(query).rows
    data = script_json({query: _data(rows)})
    return f"window.k3Grids=Object.assign(window.k3Grids||{{}},{data});\n" if rows else ""


def _data(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The grid as the script reads it: axes, and rows of each point, by platform.

    A coded column holds places in `words`, which keeps the file light.
    """
    platforms = dict.fromkeys(str(row["platform"]) for row in rows)
    words = list(dict.fromkeys(row[name] for row in rows for name in _CODED))
    place = {word: number for number, word in enumerate(words)}
    axes = {name: sorted({int(row[name]) for row in rows}) for name in _POINT}
    points: dict[str, dict[str, list[list[Any]]]] = {name: {} for name in platforms}
    for row in rows:
        key = "/".join(str(row[name]) for name in _POINT)
        points[str(row["platform"])].setdefault(key, []).append(
            [place[row[name]] if name in _CODED else row[name] for name in _COLUMNS]
        )
    return {
        "axes": axes, "columns": list(_COLUMNS), "coded": list(_CODED), "words": words, "points": points,
    }  # fmt: skip


def _input(name: str, label: str, unit: str, optional: bool, _folded: bool) -> str:
    pairs: dict[str, object] = {
        "name": name, "inputmode": "decimal", "required": "" if optional else "required",
        "aria-describedby": f"k3-problem-{name}",
    }  # fmt: skip
    shown = f' <span class="k3-unit">({escape(unit)})</span>' if unit else ""
    problem = f'<output class="k3-problem" id="k3-problem-{name}" data-live="problem-{name}"></output>'
    return f"<label>{escape(label)}{shown} <input{attributes(pairs)}>{problem}</label>"


def _choice(name: str, label: str, values: Sequence[str]) -> str:
    options = "".join(f"<option{attributes({'value': value})}>{escape(value)}</option>" for value in values)
    return f"<label>{escape(label)} <select{attributes({'name': name})}>{options}</select></label>"


def _card(sources: Sources, name: str, rows: Sequence[Mapping[str, Any]], place: str) -> str:
    """One platform's answers, each with the artifacts behind the grid."""
    whole = sources.cite(rows[0], ColumnSpec("seal", "seal"), place)
    parts = []
    for answer, label in _ANSWERS:
        pairs: dict[str, object] = {
            "data-live": f"{name}-{answer}", "data-column": "seal", **cell_attributes(whole), "tabindex": "0",
        }  # fmt: skip
        output = f"<output{attributes(pairs)}></output>"
        parts.append(
            f'<p class="k3-nodes">{output} {escape(label)}</p>'
            if answer == "nodes"
            else f"<div><dt>{escape(label)}</dt><dd>{output}</dd></div>"
        )
    head = f"<h3>{escape(name.upper())} {badge(whole.tier, whole.basis)}</h3>"
    return f'<section data-platform="{escape(name)}">{head}{parts[0]}<dl>{"".join(parts[1:])}</dl></section>'
