"""Rows of a query as CSV: units in the header, full precision, one file bytes for one result."""

from __future__ import annotations

import csv
import io

from k3repro.report._formats import machine_value
from k3repro.report._sources import Result

__all__ = ["rows_csv"]


def rows_csv(result: Result) -> str:
    """RFC 4180 with `\\n`; header `wall_s [s]`; NULL is an empty field, an empty text a quoted one."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_MINIMAL)
    units = {name: result.query.column(name).unit for name in result.columns}
    writer.writerow([f"{name} [{units[name]}]" if units[name] else name for name in result.columns])
    for row in result.rows:
        writer.writerow([machine_value(row[name]) for name in result.columns])
    return out.getvalue()
