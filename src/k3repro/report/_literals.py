"""Numbers that a query writes instead of reading them: refused before the query runs.

A SELECT list gives a literal where a cell could be that literal whatever the artifacts hold: a constant,
arithmetic of constants, a branch of CASE, an argument of coalesce or of concat, a row of VALUES, the bounds
of a series. Every SELECT list of the query is read, whether or not its columns reach the outermost one, so
that no name has to be followed. Units may be converted (`x / 1e9`): an expression that reads a column is
taken for a reading of it (site/pages/about/limits.md).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import duckdb

from k3repro.report._grammar import Grammar

__all__ = ["literals"]

_GIVES_ARGUMENTS = {  # besides everything with one argument
    "coalesce", "ifnull", "nvl", "nullif", "if", "greatest", "least", "error", "case",
    "concat", "concat_ws", "||", "format", "printf", "replace", "regexp_replace", "lpad", "rpad", "repeat",
    "list_value", "list_concat", "struct_pack", "row", "map", "list_extract", "array_extract", "element_at",
    "struct_extract", "first", "last", "any_value", "arg_min", "arg_max", "string_agg", "listagg", "round",
    "group_concat",
}  # fmt: skip
_COUNTS = {"count", "count_star", "row_number", "rank", "dense_rank", "ntile"}
_EXTRACTS = {
    "array_extract",
    "list_extract",
    "struct_extract",
    "array_slice",
    "list_slice",
    "element_at",
    "repeat",
}
_PATTERNS = {"replace", "regexp_replace"}  # text, pattern, replacement
_SERIES = {"range", "generate_series", "unnest", "repeat", "repeat_row", "generate_subscripts"}


def literals(sql: str, grammar: Grammar) -> list[str]:
    """What a query writes where a cell could show it; empty for SQL that is no SELECT (refused elsewhere)."""
    return [text for text in _yields(sql) if grammar.numbers(text)]


@lru_cache(maxsize=1024)
def _yields(sql: str) -> tuple[str, ...]:
    with _parser().cursor() as parser:
        row = parser.execute("SELECT json_serialize_sql(?)", [sql]).fetchone()
    tree = json.loads(row[0]) if row else {}
    return tuple(dict.fromkeys(_given(tree)))


@lru_cache(maxsize=1)
def _parser() -> duckdb.DuckDBPyConnection:
    """A database without files or network that only parses; opening one costs more than its answers."""
    parser = duckdb.connect(":memory:")
    parser.execute("SET enable_external_access = false")
    return parser


def _given(node: Any) -> Iterator[str]:
    """Constants that any SELECT list, VALUES list or series below `node` can give."""
    if isinstance(node, list):
        for item in node:
            yield from _given(item)
    elif isinstance(node, dict):
        for expression in node.get("select_list") or ():
            yield from _constants(expression)
        for row in node.get("values") or ():
            for expression in row if isinstance(row, list) else ():
                yield from _constants(expression)
        if node.get("type") == "TABLE_FUNCTION" and node["function"].get("function_name") in _SERIES:
            for argument in _arguments(node["function"]):
                yield from _constants(argument)
        for child in node.values():
            yield from _given(child)


def _constants(node: Any) -> Iterator[str]:
    """The constants that an expression's value can be."""
    kind = node.get("class")
    if kind == "CONSTANT":
        yield from _spelled(node)
    elif kind == "CAST":
        yield from _constants(node["child"])
    elif kind == "CASE":
        for check in node["case_checks"]:
            yield from _constants(check["then_expr"])
        yield from _constants(node["else_expr"])
    elif kind == "STAR":
        for replaced in node.get("replace_list") or ():
            yield from _constants(replaced["value"])
    elif _name(node) not in _COUNTS:
        arguments = _arguments(node)
        if len(arguments) == 1 or _name(node) in _GIVES_ARGUMENTS or not _reads(node):
            for child in arguments:
                yield from _constants(child)


def _spelled(node: dict[str, Any]) -> Iterator[str]:
    literal = node.get("literal") or {}
    if literal.get("kind") not in ("NULL", "BOOLEAN"):
        yield str(literal.get("text", ""))


def _name(node: dict[str, Any]) -> str:
    return str(node.get("function_name") or node.get("type") or "").lower().removeprefix("operator_")


def _arguments(node: dict[str, Any]) -> list[dict[str, Any]]:
    """What the value of a call can be made of: its arguments, without indices and patterns."""
    children = node.get("arguments") or node.get("children") or []
    values = [child.get("expression", child) for child in children]
    if _name(node) in _PATTERNS:
        return values[::2]
    return values[:1] if _name(node) in _EXTRACTS else values


def _reads(node: Any) -> bool:
    """Whether a column, or the number of rows, is read anywhere below."""
    if isinstance(node, list):
        return any(_reads(item) for item in node)
    if not isinstance(node, dict):
        return False
    if node.get("class") in ("COLUMN_REF", "STAR") or node.get("function_name") in _COUNTS:
        return True
    return any(_reads(child) for child in node.values())
