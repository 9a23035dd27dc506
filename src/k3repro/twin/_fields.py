"""Reading one field of a request as pydantic does behind a real engine: what it converts, and how it refuses.

Measured on the request classes of vLLM 0.32 with pydantic 2.14: "3", 3.0 and true are whole numbers, "yes" is
true, 1.5 and "hot" are refused with a type and a sentence each.
"""

from __future__ import annotations

import math
import re
from typing import Any

__all__ = ["WrongField", "boolean", "integer", "number"]

_WHOLE = re.compile(r"\s*[+-]?\d+(?:_\d+)*(?:\.0+)?\s*")
_TRUE = frozenset(("1", "on", "t", "true", "y", "yes"))
_FALSE = frozenset(("0", "off", "f", "false", "n", "no"))
_INTEGER, _NUMBER = "Input should be a valid integer", "Input should be a valid number"
_BOOLEAN = "Input should be a valid boolean"


class WrongField(Exception):
    """The value is refused; `kind` and `sentence` are pydantic's."""

    def __init__(self, kind: str, sentence: str) -> None:
        super().__init__(sentence)
        self.kind, self.sentence = kind, sentence


def integer(value: Any) -> int:
    """A whole number. Raises WrongField otherwise."""
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise WrongField("finite_number", "Input should be a finite number")
        if not value.is_integer():
            raise WrongField("int_from_float", f"{_INTEGER}, got a number with a fractional part")
        return int(value)
    if isinstance(value, str):
        if len(value) > 4300 or not _WHOLE.fullmatch(value):
            raise WrongField("int_parsing", f"{_INTEGER}, unable to parse string as an integer")
        return int(value.partition(".")[0])
    raise WrongField("int_type", _INTEGER)


def number(value: Any) -> float:
    """A number, not necessarily finite. Raises WrongField otherwise."""
    if isinstance(value, (int, float)):
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            raise WrongField("float_parsing", f"{_NUMBER}, unable to parse string as a number") from None
    raise WrongField("float_type", _NUMBER)


def boolean(value: Any) -> bool:
    """Yes or no. Raises WrongField otherwise."""
    if isinstance(value, (int, float)) and value in (0, 1):
        return bool(value)
    if isinstance(value, str) and value.lower() in _TRUE | _FALSE:
        return value.lower() in _TRUE
    if isinstance(value, (str, int, float)):
        raise WrongField("bool_parsing", f"{_BOOLEAN}, unable to interpret input")
    raise WrongField("bool_type", _BOOLEAN)
