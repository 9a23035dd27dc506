"""Measurements of the kernels on an accelerator, as a sealed artifact."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from k3repro.errors import InputError
from k3repro.store import Artifact, Column, Header, Schema, Store, Table

TIMINGS = Table(
    "timings",
    [
        Column("position", "INT64"),
        Column("what", "VARCHAR", doc="copy, torch (the plain conversion) or kernel"),
        Column("rule", "VARCHAR"),
        Column("source", "VARCHAR", doc="weights: uniform codes or Gaussian"),
        Column("warps", "INT64"),
        Column("blocks", "INT64", doc="blocks of 32 weights"),
        Column("seconds", "DOUBLE", "s", "median"),
        Column("seconds_low", "DOUBLE", "s", "5th percentile"),
        Column("seconds_high", "DOUBLE", "s", "95th percentile"),
        Column("gb_per_s", "DOUBLE", "GB/s", "bytes read plus written"),
        Column("input_gb_per_s", "DOUBLE", "GB/s", "MXFP4 bytes read"),
        Column("of_copy", "DOUBLE", doc="share of the copy bandwidth of the same run"),
    ],
    key=("position",),
)
CHECKS = Table(
    "checks",
    [
        Column("rule", "VARCHAR"),
        Column("blocks", "INT64"),
        Column("words_that_differ", "INT64", doc="against the CPU path, all scale bytes"),
        Column("scales_that_differ", "INT64"),
        Column("mended", "INT64", doc="blocks left to the CPU: all zero or a scale byte outside 112..252"),
        Column("relative_rms", "DOUBLE", doc="of those blocks, in float64"),
    ],
    key=("rule",),
)
CODE = Table(
    "code",
    [
        Column("rule", "VARCHAR"),
        Column("target", "VARCHAR"),
        Column("instruction", "VARCHAR"),
        Column("count", "INT64"),
    ],
    key=("rule", "target", "instruction"),
    doc="Census of the machine code; for gfx942, which was compiled but not run, registers and code size.",
)
KERNEL_SCHEMA = Schema([TIMINGS, CHECKS, CODE])


def seal_kernel_result(store: Store, result: Mapping[str, Any], subject: str = "device:h200") -> Artifact:
    """Seal what `benchmarks/bench_kernel.py` measured as `int4-kernel@SUBJECT`.

    The evidence is what the device and its libraries said of themselves, and the machine code that ran.

    Raises:
        InputError: the result lacks device, timings or checks.
    """
    missing = [name for name in ("device", "timings", "checks", "code", "log") if not result.get(name)]
    if missing:
        raise InputError(
            f"the result lacks {', '.join(missing)}", fix="Run benchmarks/bench_kernel.py --out again."
        )
    device = result["device"]
    header = Header(
        name="int4-kernel",
        subject=subject,
        kind="probe",
        producer="k3repro.mxfp4.device_record:seal_kernel_result",
        parameters={"blocks": result["blocks"], "device": device["name"]},
        clock="wall",
        serve={
            "device": device,
            "evidence": [
                {"kind": "build_info", "value": f"torch {device['torch']}, triton {device['triton']}"},
                {"kind": "startup_lines", "value": result["log"]},
                {"kind": "metrics", "value": f"{device['name']}, driver {device['driver']}"},
            ],
        },
    )
    run = store.begin(header, KERNEL_SCHEMA)
    if "all" not in run.waves:
        run.commit("all", {"timings": _timings(result), "checks": result["checks"], "code": _code(result)})
    wrong = sum(check["words_that_differ"] + check["scales_that_differ"] for check in result["checks"])
    return run.seal(verdict={"ok": wrong == 0, "reasons": [f"{wrong} results differ"] if wrong else []})


def _timings(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    names = [column.name for column in TIMINGS.columns][1:]
    return [
        {"position": position, **{name: row.get(name) for name in names}}
        for position, row in enumerate(result["timings"])
    ]


def _code(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    rows = []
    for entry in result["code"]:
        for target, counts in (("sm_90", entry["census"]), ("gfx942", entry["gfx942"])):
            rows += [
                {"rule": entry["rule"], "target": target, "instruction": name, "count": count}
                for name, count in counts.items()
            ]
    return rows
