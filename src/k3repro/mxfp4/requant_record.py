"""What a conversion leaves in the store: sizes and error per tensor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from k3repro.store import Artifact, Column, Header, Schema, Store, Table

TENSORS = Table(
    "tensors",
    [
        Column("tensor", "VARCHAR"),
        Column("shard", "VARCHAR"),
        Column("rows", "INT64"),
        Column("columns", "INT64"),
        Column("weights", "INT64"),
        Column("source_bytes", "INT64", "B", "MXFP4 codes and scale bytes"),
        Column("int4_bytes", "INT64", "B", "int4 codes and bfloat16 scales: 4.5 bits a weight"),
        Column("error_blocks", "INT64", "", "evenly spaced blocks of 32 that the error was measured on"),
        Column("error_energy", "DOUBLE", "", "sum of squared differences over those blocks"),
        Column("weight_energy", "DOUBLE", "", "sum of squared weights over those blocks"),
        Column("relative_rms", "DOUBLE", "", "square root of their ratio; NULL where all weights are zero"),
    ],
    key=("tensor",),
    doc="One row per converted tensor.",
)
SUMMARY = (
    "shards", "converted_tensors", "converted_weights", "mxfp4_bytes", "int4_bytes", "int4_bits_per_weight",
    "checkpoint_bytes", "copied_bytes", "relative_rms", "error_blocks",
)  # fmt: skip
TOTALS = Table(
    "totals",
    [
        Column("rule", "VARCHAR"),
        *(Column(n, "DOUBLE" if n in ("int4_bits_per_weight", "relative_rms") else "INT64") for n in SUMMARY),
    ],
    key=("rule",),
    doc="One row: the whole checkpoint.",
)
REQUANT_SCHEMA = Schema([TENSORS, TOTALS])


def seal_requant(store: Store, report: Mapping[str, Any], subject: str) -> Artifact:
    """Seal the report of `requant` as `requant@SUBJECT`.

    A checkpoint on somebody's disk is no evidence that others can check, so its tier is `unverified`.
    """
    fingerprint = str(report["source_fingerprint"])
    header = Header(
        name="requant",
        subject=subject,
        kind="probe",
        producer="k3repro.mxfp4.requant_record:seal_requant",
        parameters={"rule": report["rule"], "format": report["format"], "source": fingerprint},
        clock="none",
    )
    run = store.begin(header, REQUANT_SCHEMA)
    names = {column.name for column in TENSORS.columns}
    if "all" not in run.waves:
        tensors = [{k: v for k, v in row.items() if k in names} for row in report["tensors"]]
        totals = [{"rule": report["rule"], **{name: report[name] for name in SUMMARY}}]
        run.commit("all", {"tensors": tensors, "totals": totals})
    return run.seal(verdict={"ok": True, "reasons": []})
