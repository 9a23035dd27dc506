"""What is known of the twin's errors, as it ships with the package: the same in every directory.

`errors.json` holds rows of three sealed artifacts, each with the digest of its data. After they were sealed
anew, `python -m k3repro.sizing.known` in the checkout writes it again; a test compares the two.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from k3repro.store import Store
from k3repro.units import quantile

__all__ = ["calibrated_constants", "errors_of_levels", "fidelity_cells", "known_of"]

_FILE = Path(__file__).with_name("data") / "errors.json"
_CELL = (
    "platform", "source", "cell", "quantity", "regime", "error", "counts", "isl", "concurrency"
)  # fmt: skip
_CONSTANT = ("platform", "constant", "value", "low", "high")


def fidelity_cells() -> Sequence[Mapping[str, Any]]:
    """Printed cells beside the twin, rows of twin-fidelity; an error is simulated over printed, less 1."""
    return list(_file()["twin-fidelity"]["cells"])


def calibrated_constants() -> Sequence[Mapping[str, Any]]:
    """Constants of the twin with their intervals, rows of twin-calibration; units are in their names."""
    return list(_file()["twin-calibration"]["constants"])


def errors_of_levels() -> Mapping[str, Any]:
    """Errors of the roofline against the node study's cells: n, median and worst of each quantity."""
    return dict(_file()["level-fidelity"]["roofline"])


def known_of(store: Store) -> dict[str, Any]:
    """The file's contents, from the artifacts of a store.

    Raises:
        StoreError: one of the three artifacts is missing.
    """
    fidelity, calibration = store.find("twin-fidelity@twin"), store.find("twin-calibration@twin")
    levels = store.find("level-fidelity@mi325x-cookbook")
    cells = levels.rows("cells")
    errors: dict[str, list[float]] = {}
    for row in cells:
        if row["variant"] == "roofline" and row["error"] is not None:
            errors.setdefault(row["quantity"], []).append(abs(row["error"]))
    roofline = {"cells": len(cells), "of": "level-fidelity, variant roofline"} | {
        name: {"n": len(of), "median_error": round(quantile(of, 0.5), 3), "worst_error": round(max(of), 3)}
        for name, of in sorted(errors.items())
    }
    chosen = [{name: row[name] for name in _CELL} for row in fidelity.rows("cells")]
    constants = [{name: row[name] for name in _CONSTANT} for row in calibration.rows("constants")]
    return {
        "twin-fidelity": {"data": fidelity.document["data"], "cells": chosen},
        "twin-calibration": {"data": calibration.document["data"], "constants": constants},
        "level-fidelity": {"data": levels.document["data"], "roofline": roofline},
    }


@cache
def _file() -> dict[str, Any]:
    return dict(json.loads(_FILE.read_text(encoding="utf-8")))


if __name__ == "__main__":
    _FILE.write_text(json.dumps(known_of(Store()), indent=0) + "\n", encoding="utf-8")
