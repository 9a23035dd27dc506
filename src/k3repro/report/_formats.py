"""How a cell of a query becomes text: one small format language over `units.rounding`.

`.2f` two decimals, `.0f` or `d` an integer (thousands grouped), `.3g` significant figures, `.1%` percent,
`.2e` scientific, `year` ungrouped integer, `text` as it is.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

from k3repro.errors import InputError
from k3repro.units import format_decimal, round_decimal

__all__ = ["MISSING", "format_cell", "machine_value", "with_unit"]

MISSING = "—"
_FORMAT = re.compile(r"(?:,?\.(\d+)([fge%])|([d,])|(year)|(text))")


def format_cell(value: Any, spec: str | None) -> str:
    """`value` as a reader sees it.

    Raises:
        InputError: the format is unknown, or does not fit the value.
    """
    if value is None:
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(format_cell(item, spec) for item in value)
    if isinstance(value, str):
        return value
    return _number(value, spec or ("d" if isinstance(value, int) else ".3g"))


def _number(value: int | float, spec: str) -> str:
    match = _FORMAT.fullmatch(spec)
    if match is None:
        raise InputError(f"unknown format {spec!r}", fix="Use .2f, d, .3g, .1%, .2e, year or text.")
    places, kind = int(match.group(1) or 0), match.group(2) or match.group(3) or match.group(4) or "text"
    match kind:
        case "f":
            return format_decimal(value, places)
        case "d" | ",":
            return format_decimal(value, 0)
        case "%":
            return f"{format_decimal(Decimal(str(value)) * 100, places)}%"
        case "g":
            return format_decimal(value, _places_for(value, places))
        case "e":
            return _scientific(value, places)
        case "year":
            return format_decimal(value, 0, grouped=False)
        case _:
            return machine_value(value)


def _places_for(value: int | float, significant: int) -> int:
    number = Decimal(str(value))
    if number == 0:
        return 0
    places = max(significant, 1) - 1 - number.adjusted()
    # 9.996 at three figures becomes 10.0, not 10.00
    return max(max(significant, 1) - 1 - round_decimal(value, places).adjusted(), 0)


def _scientific(value: int | float, places: int) -> str:
    exponent = Decimal(str(value)).adjusted() if value else 0
    mantissa = round_decimal(Decimal(str(value)).scaleb(-exponent), places)
    if abs(mantissa) >= 10:
        mantissa, exponent = round_decimal(mantissa / 10, places), exponent + 1
    return f"{mantissa:f}e{exponent}"


def machine_value(value: Any) -> str:
    """`value` to full precision, for attributes and CSV: shortest repr of a double, plain integers, text."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, list):
        return " ".join(machine_value(item) for item in value)
    return str(value)


def with_unit(text: str, unit: str | None) -> str:
    """A number and its unit, kept on one line: `3.1 s` with a no-break space; percent signs stay attached."""
    if not unit or text == MISSING:
        return text
    return f"{text}{unit}" if unit in {"%", "×"} else f"{text}\u00a0{unit}"
