"""exp, log and pow in integers: the same bits here and in the site's JavaScript, whatever the C library.

C libraries and browsers round the last bit of these three as they like, so neither is asked. Both sides
run this algorithm on 256-bit fixed point and let the decimal parser round once
(`report/assets/k3-law.js` is its twin).
"""

from __future__ import annotations

import math

__all__ = ["exp", "log", "power"]

_BITS = 256
_DIGITS = 400  # decimal places of the text that is rounded: below the least double
_FAR = 1000 << _BITS  # beyond e**1000 a double overflows, below e**-1000 it is zero


def exp(x: float) -> float:
    """e to the x; OverflowError beyond the doubles."""
    return _exp(_scaled(1 << _BITS, x))


def log(x: float) -> float:
    """The natural logarithm; ValueError unless x is positive."""
    if x <= 0:
        raise ValueError("a logarithm of a number that is not positive")
    return _rounded(_log(x), -_BITS)


def power(x: float, y: float) -> float:
    """x to the y; ValueError where that is no real number."""
    if y == 0:
        return 1.0
    if x == 0:
        if y < 0:
            raise ValueError("a negative power of zero")
        return 0.0
    if x < 0 and not y.is_integer():
        raise ValueError("a broken power of a negative number")
    value = _exp(_scaled(_log(abs(x)), y))
    return -value if x < 0 and y % 2 else value


def _scaled(fixed: int, x: float) -> int:
    """`fixed` times x, in the same fixed point; cut off far outside what exp can answer."""
    fraction, exponent = math.frexp(x)
    shift = exponent - 53
    product = fixed * int(fraction * 2**53)
    if shift > 1100:
        return 0 if not product else 2 * _FAR * (1 if product > 0 else -1)
    return product << shift if shift > 0 else product >> -shift


def _log(x: float) -> int:
    fraction, exponent = math.frexp(x)
    mantissa = int(fraction * 2**53)  # x = mantissa / 2**52 * 2**(exponent - 1), the first factor in [1, 2)
    ratio = ((mantissa - 2**52) << _BITS) // (mantissa + 2**52)
    return 2 * _atanh(ratio) + (exponent - 1) * _LN2


def _atanh(ratio: int) -> int:
    square, term, total, n = ratio * ratio >> _BITS, ratio, 0, 1
    while term:
        total, term, n = total + term // n, term * square >> _BITS, n + 2
    return total


_LN2 = 2 * _atanh((1 << _BITS) // 3)


def _exp(fixed: int) -> float:
    if fixed > _FAR:
        raise OverflowError("beyond the largest double")
    if fixed < -_FAR:
        return 0.0
    twos = fixed // _LN2
    rest, term, total, n = fixed - twos * _LN2, 1 << _BITS, 0, 1
    while term:
        total, term, n = total + term, (term * rest >> _BITS) // n, n + 1
    return _rounded(total, twos - _BITS)


def _rounded(mantissa: int, exponent: int) -> float:
    """The double nearest to mantissa * 2**exponent."""
    digits = abs(mantissa) * 10**_DIGITS
    digits = digits << exponent if exponent > 0 else digits >> -exponent
    value = float(f"{digits}e-{_DIGITS}")
    if math.isinf(value):
        raise OverflowError("beyond the largest double")
    return -value if mantissa < 0 else value
