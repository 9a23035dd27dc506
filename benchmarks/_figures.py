"""Figures of a benchmark: printed where they are measured, and collected by `bench_all.py`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TypedDict

COLLECT = "K3REPRO_FIGURES"  # names the file that `bench_all.py` reads


class Figure(TypedDict):
    """A value or, where there is a peer or a limit, its ratio to that; the bar is one for the ratio then."""

    name: str
    value: str
    ratio: float | None
    of: str
    bar: str
    verdict: str


def figure(
    name: str,
    value: float,
    unit: str,
    *,
    ratio: float | None = None,
    of: str = "",
    least: float | None = None,
    most: float | None = None,
) -> Figure:
    """Print a figure, and hand it to `bench_all.py` where that runs the script."""
    held = value if ratio is None else ratio
    bar, verdict = "", ""
    if least is not None:
        bar, verdict = f">= {least:,g}", "met" if held >= least else "MISSED"
    elif most is not None:
        bar, verdict = f"<= {most:,g}", "met" if held <= most else "MISSED"
    shown = f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.3g}"
    found = Figure(name=name, value=f"{shown} {unit}".strip(), ratio=ratio, of=of, bar=bar, verdict=verdict)
    print(line(found))
    if os.environ.get(COLLECT):
        with Path(os.environ[COLLECT]).open("a") as stream:
            stream.write(json.dumps(found) + "\n")
    return found


def line(found: Figure) -> str:
    """One row of the table."""
    ratio = "" if found["ratio"] is None else f"{found['ratio']:.2f} of {found['of']}"
    return f"{found['name']:<46}{found['value']:>20}  {ratio:<26}{found['bar']:<12}{found['verdict']}"
