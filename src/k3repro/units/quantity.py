"""Bytes and token counts: GB and GiB are never mixed, K is 1,000, Ki is 1,024."""

from __future__ import annotations

import re
from decimal import Decimal

from k3repro.errors import InputError

K = 1_000
KI = 1_024
GB = 10**9
GIB = 2**30

_BYTE_UNITS = {
    "": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": GB, "TB": 10**12,
    "KIB": 2**10, "MIB": 2**20, "GIB": GIB, "TIB": 2**40,
}  # fmt: skip
_TOKEN_UNITS = {"": 1, "K": K, "M": 10**6, "KI": KI, "MI": KI * KI}
_PATTERN = re.compile(r"\s*([0-9][0-9_,]*(?:\.[0-9]+)?(?:[eE][+]?[0-9]+)?)\s*([A-Za-z]*)\s*")


def _parse(text: str, units: dict[str, int], noun: str, examples: str) -> int:
    match = _PATTERN.fullmatch(text)
    unit = match.group(2).upper() if match else None
    if match is None or unit not in units:
        raise InputError(f"{text!r} is not a {noun}", fix=f"Write it like {examples}.")
    exact = Decimal(match.group(1).replace(",", "").replace("_", "")) * units[unit]
    if exact != exact.to_integral_value() and not unit.endswith("IB"):
        raise InputError(f"{text!r} is not a whole {noun}", fix=f"Write it like {examples}.")
    return int(exact)


def parse_bytes(text: str) -> int:
    """A byte count: ``40GB`` (10**9), ``16GiB`` (2**30), ``13e9``; not ``40Gb``, which is bits.

    A size in KiB, MiB or GiB as an engine prints it (``0.82GiB``) is rounded down to whole bytes.

    Raises:
        InputError: unknown unit, bits, negative or fractional bytes.
    """
    if re.search(r"[A-Z]i?b\s*$", text):
        fix = f"Write {text.strip()[:-1]}B for bytes; eight bits are one byte."
        raise InputError(f"{text!r} is a number of bits", fix=fix)
    return _parse(text, _BYTE_UNITS, "size in bytes", "40GB, 16GiB or 13e9")


def parse_tokens(text: str) -> int:
    """A token count: ``50K`` (50,000), ``512Ki`` (524,288), ``900000``.

    Raises:
        InputError: unknown unit, negative or fractional tokens.
    """
    return _parse(text, _TOKEN_UNITS, "token count", "50K, 512Ki or 900000")
