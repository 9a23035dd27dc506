"""The one decimal rounding of the project: half away from zero on the shortest decimal of a double.

Pages, audit and CSV all round here, so they cannot disagree about the last digit.
"""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation

from k3repro.errors import InputError

# Enough digits for the largest double to any number of places that is ever printed.
_CONTEXT = Context(prec=400, rounding=ROUND_HALF_UP)
_LARGEST = 390


def round_decimal(value: float | int | str | Decimal, places: int) -> Decimal:
    """`value` rounded to `places` decimals (negative: tens, hundreds), half away from zero.

    A float is taken at its shortest repr, so 2.675 rounds to 2.68 as a reader expects.

    Raises:
        InputError: NaN, infinity, or no number at all.
    """
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        raise InputError(f"{value!r} is not a number") from None
    if not number.is_finite() or number.adjusted() + places > _LARGEST:
        raise InputError(
            f"{value!r} cannot be rounded", fix="Store NULL and a reason instead of NaN or infinity."
        )
    rounded = number.quantize(Decimal(1).scaleb(-places), context=_CONTEXT)
    return abs(rounded) if rounded == 0 else rounded


def format_decimal(value: float | int | str | Decimal, places: int = 0, *, grouped: bool = True) -> str:
    """`value` as text with exactly `places` decimals; thousands grouped by commas unless told otherwise."""
    rounded = round_decimal(value, places)
    return f"{rounded:,f}" if grouped else f"{rounded:f}"


def thousands(value: int) -> str:
    """An integer with grouped thousands: 2836158 -> 2,836,158."""
    return f"{value:,d}"
