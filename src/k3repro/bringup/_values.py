"""What a knob may hold, by its section: a value of another kind is refused before anything is made of it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from k3repro.bringup._cluster import ROLES
from k3repro.errors import SpecError
from k3repro.spec import Layout
from k3repro.units import parse_bytes, parse_tokens

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FLAG = re.compile(r"--?[A-Za-z0-9][A-Za-z0-9_.-]*")
# What may be taken out of a recipe with the value None; everything else is read by the plan itself.
_REMOVABLE = ("flags.", "env.", "router.flags", "transfer.extra")
# Lists are made of these (ports of ranks, sizes of captured graphs): a slip of the pen must not fill memory.
_MOST = {"tp": 4096, "dp": 4096, "ep": 4096, "pp": 4096, "dcp": 4096, "prefill_nodes": 4096,
         "decode_nodes": 4096, "max_num_seqs": 65536, "block_size": 65536, "max_num_batched_tokens": 10**7,
         "max_model_len": 10**9}  # fmt: skip
_LAYOUT = {item.name: str(item.type) for item in fields(Layout)}


def knob_value(section: str, name: str, value: Any, where: str) -> Any:
    """The value as the plan uses it; a whole number written 13e9 becomes one.

    Raises:
        SpecError: a name or value that this section cannot hold.
    """
    spot = f"{where}: {section}.{name}"
    if value is None:
        if not section.startswith(_REMOVABLE):
            raise SpecError("this knob cannot be taken out", where=spot)
        return None
    if section.startswith("env."):
        return _variable(name, value, spot)
    if section.startswith("flags.") or section == "router.flags":
        return _flag(name, value, spot)
    if section == "ports":
        return _whole(value, 1, 65535, spot)
    if section in {"order", "memory"} and name != "workload":
        return _number(value, spot)
    if (section, name) == ("transfer", "roles"):
        return _texts(value, ROLES, spot)
    if (section, name) == ("container", "flags"):
        return _texts(value, (), spot)
    return _scalar(value, spot)


def layout_value(name: str, value: Any, where: str) -> Any:
    """The value of a layout's field, of the field's own type.

    Raises:
        SpecError: no such field, or a value of another type.
    """
    spot, kind = f"{where}: layout.{name}", _LAYOUT.get(name, "")
    if not kind or "Mapping" in kind or "Wall" in kind:
        known = ", ".join(sorted(key for key, text in _LAYOUT.items() if "[" not in text and key != "wall"))
        raise SpecError(f"a layout has no field {name!r}", where=where, fix=f"Fields: {known}.")
    if value is None and "None" in kind:
        return None
    if kind.startswith("int"):
        value = _size(name, value)
        low, high = (0 if name.endswith("_nodes") else 1), _MOST.get(name, 10**15)
        return _whole(value, low, high, spot)
    if kind.startswith("float"):
        return _number(value, spot)
    wanted = bool if kind.startswith("bool") else str
    if not isinstance(value, wanted):
        fix = "Give true or false." if wanted is bool else "Give text."
        raise SpecError(f"{value!r} is not a value of this field", where=spot, fix=fix)
    return value


def _size(name: str, value: Any) -> Any:
    """Bytes and tokens as `budget` takes them: 0.82GiB, 900K."""
    reads = {"_bytes": parse_bytes, "_len": parse_tokens, "_tokens": parse_tokens}
    read = next((read for end, read in reads.items() if name.endswith(end)), None)
    return read(value) if read and isinstance(value, str) else value


def text_of(value: Any) -> str:
    """A value as one word of a command line: switches in lower case, tables as JSON.

    Raises:
        SpecError: the value is unknown.
    """
    if value is None:
        raise SpecError("a knob has no value: the layout leaves it unknown")
    if isinstance(value, Mapping):
        return json.dumps(value, separators=(",", ":"))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _variable(name: str, value: Any, spot: str) -> Any:
    if not _VARIABLE.fullmatch(name):
        raise SpecError(f"{name!r} is not a variable's name", where=spot)
    return _scalar(value, spot)


def _flag(name: str, value: Any, spot: str) -> Any:
    if not _FLAG.fullmatch(name):
        raise SpecError(f"{name!r} is not a flag", where=spot, fix="A flag begins with --.")
    if isinstance(value, list):
        return [_scalar(item, spot) for item in value]
    if isinstance(value, dict):
        return value  # a document, written as JSON
    return _scalar(value, spot)


def _scalar(value: Any, spot: str) -> Any:
    sound = isinstance(value, (str, bool, int)) or (isinstance(value, float) and math.isfinite(value))
    if not sound or (isinstance(value, str) and any(mark in value for mark in "\0\n\r")):
        fix = "Give one line of text, a number, true or false."
        raise SpecError(f"{value!r} is not a value", where=spot, fix=fix)
    return value


def _number(value: Any, spot: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
        raise SpecError(f"{value!r} is not a number from 0", where=spot)
    return value


def _whole(value: Any, low: int, high: int, spot: str) -> int:
    number = int(value) if isinstance(value, float) and value.is_integer() else value
    if isinstance(number, bool) or not isinstance(number, int) or not low <= number <= high:
        raise SpecError(f"{value!r} is not a whole number from {low} to {high}", where=spot)
    return number


def _texts(value: Any, known: tuple[str, ...], spot: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise SpecError(f"{value!r} is not a list of text", where=spot)
    if known and (unknown := [item for item in value if item not in known]):
        raise SpecError(f"{unknown[0]!r} is not known", where=spot, fix=f"Known: {', '.join(known)}.")
    return value
