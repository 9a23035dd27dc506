"""Kernel census: which kernels a short profiled run launched, by family and precision.

A configuration says what was asked for; a census says what ran. The publication's first baseline asked for a
low-precision path and its trace held none. Reads the Chrome JSON of torch's profiler (as vLLM's profile
endpoints write it, gzip or not), and rocprof's kernel CSV or JSON.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from k3repro.errors import InputError
from k3repro.toml import shipped_toml

__all__ = ["Census", "Kernel", "census_of", "read_trace"]

FOUR_BIT = ("int4", "mxfp4", "nvfp4")
_GPU = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
_NAMES = ("Kernel_Name", "KernelName", "Name", "kernel_name")
_LIMIT = 2**31


@dataclass(frozen=True, slots=True)
class Kernel:
    """One launch: its name, the operator that launched it ("" when not recorded), microseconds."""

    name: str
    op: str = ""
    duration_us: float = 0.0


@dataclass(frozen=True, slots=True)
class Census:
    """Counts by (family, precision); names that no pattern knows are listed, never dropped."""

    counts: Mapping[tuple[str, str], int]
    times_us: Mapping[tuple[str, str], float]
    unknown: Mapping[str, int]
    launches: int

    def count(self, family: str, *precisions: str) -> int:
        """Launches of a family, of any of the precisions, or of all when none is named."""
        return sum(n for (name, what), n in self.counts.items()
                   if name == family and (not precisions or what in precisions))  # fmt: skip

    @property
    def four_bit(self) -> int:
        """Matrix kernels with four-bit weights: plain and expert."""
        return self.count("gemm", *FOUR_BIT) + self.count("moe", *FOUR_BIT)

    def verdict(self) -> str:
        """One sentence: did a four-bit path run, in what was the cache written."""
        matrix = self.count("gemm") + self.count("moe")
        ran = f"{self.four_bit} of {matrix} matrix kernels have four-bit weights"
        path = "a four-bit path ran" if self.four_bit else "no four-bit path ran"
        writes = {what: n for (family, what), n in self.counts.items() if family == "kv-write"}
        cache_text = ", ".join(f"{n} in {what}" for what, n in sorted(writes.items())) or "none seen"
        return f"{path}: {ran}; cache writes: {cache_text}"

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        rows = [
            {"family": family, "precision": precision, "launches": n,
             "time_us": round(self.times_us[family, precision], 3)}
            for (family, precision), n in sorted(self.counts.items())
        ]  # fmt: skip
        return {"launches": self.launches, "kernels": rows, "four_bit": self.four_bit,
                "unknown": dict(self.unknown), "verdict": self.verdict()}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Pattern:
    name: str
    kernel: re.Pattern[str] | None
    op: re.Pattern[str] | None

    def matches(self, kernel: Kernel) -> bool:
        by_name = self.kernel is not None and self.kernel.search(kernel.name)
        return bool(by_name or (self.op is not None and kernel.op and self.op.search(kernel.op)))


@cache
def _patterns(kind: str) -> tuple[_Pattern, ...]:
    raw = shipped_toml("k3repro.bringup", "kernels.toml")
    # Precision letters of library names (BBS, F8) are upper case; words of families are written in any case.
    flags = re.IGNORECASE if kind == "family" else 0
    return tuple(
        _Pattern(
            entry["name"],
            re.compile(entry["kernel"], flags) if "kernel" in entry else None,
            re.compile(entry["op"]) if "op" in entry else None,
        )
        for entry in raw[kind]
    )


@cache
def _classify(name: str, op: str) -> tuple[str, str]:
    kernel = Kernel(name, op)
    family = next((item.name for item in _patterns("family") if item.matches(kernel)), "other")
    if family in {"copy", "communication", "routing", "elementwise", "other"}:
        return family, "-"
    return family, next((item.name for item in _patterns("precision") if item.matches(kernel)), "unknown")


def census_of(kernels: Iterable[Kernel]) -> Census:
    """Count launches by family and precision."""
    counts: Counter[tuple[str, str]] = Counter()
    times: Counter[tuple[str, str]] = Counter()
    unknown: Counter[str] = Counter()
    for kernel in kernels:
        key = _classify(kernel.name, kernel.op)
        counts[key] += 1
        times[key] += kernel.duration_us  # type: ignore[assignment]
        if key[0] == "other" or key[1] == "unknown":
            unknown[kernel.name[:200]] += 1
    return Census(
        dict(counts), {key: float(value) for key, value in times.items()}, dict(unknown), counts.total()
    )


def read_trace(path: str | Path) -> list[Kernel]:
    """The kernel launches of a trace file.

    Raises:
        InputError: not a trace of a known form, or none of its events is a kernel.
    """
    text = _text(Path(path))
    where = Path(path).name
    kernels = list(_from_csv(text)) if not text.lstrip().startswith(("{", "[")) else _from_json(text, where)
    if not kernels:
        fix = "Profile with GPU activities: torch's profiler, or rocprofv3 --kernel-trace."
        raise InputError("the trace holds no kernel", where=where, fix=fix)
    return kernels


def _text(path: Path) -> str:
    try:
        raw = path.read_bytes()
        if raw[:2] == b"\x1f\x8b":
            with gzip.GzipFile(fileobj=io.BytesIO(raw)) as packed:
                raw = packed.read(_LIMIT)
        return raw.decode("utf-8", "replace")
    except (OSError, EOFError, gzip.BadGzipFile) as error:
        raise InputError(f"cannot be read: {error}", where=path.name) from None


def _from_json(text: str, where: str) -> list[Kernel]:
    try:
        document = json.loads(text)
    except ValueError as error:
        raise InputError(
            f"not JSON: {error}", where=where, fix="The file may be cut; profile again."
        ) from None
    if isinstance(document, list):
        return list(_chrome(document))
    if "rocprofiler-sdk-tool" in document:
        return [kernel for tool in document["rocprofiler-sdk-tool"] for kernel in _rocprof(tool)]
    return list(_chrome(document.get("traceEvents", ())))


def _chrome(events: Iterable[Any]) -> Iterator[Kernel]:
    """Kernels of Chrome JSON, each with the innermost operator of its correlation."""
    complete = [event for event in events if isinstance(event, dict) and event.get("ph") == "X"]
    ops = {
        event["args"]["External id"]: str(event.get("name", ""))
        for event in complete
        if event.get("cat") == "cpu_op" and "External id" in (event.get("args") or {})
    }
    for event in complete:
        if event.get("cat") in _GPU or ("cat" not in event and "BeginNs" in (event.get("args") or {})):
            op = ops.get((event.get("args") or {}).get("External id"), "")
            yield Kernel(str(event.get("name", "")), op, _number(event.get("dur")))


def _rocprof(tool: Mapping[str, Any]) -> Iterator[Kernel]:
    """Dispatches of rocprofv3's JSON; names stand in a table of symbols."""
    symbols = {
        item.get("kernel_id"): str(item.get("formatted_kernel_name") or item.get("kernel_name", ""))
        for item in tool.get("kernel_symbols", ())
    }
    for record in tool.get("buffer_records", {}).get("kernel_dispatch", ()):
        name = symbols.get(record.get("dispatch_info", {}).get("kernel_id"), "")
        span = _number(record.get("end_timestamp")) - _number(record.get("start_timestamp"))
        yield Kernel(name, "", span / 1000)


def _from_csv(text: str) -> Iterator[Kernel]:
    """rocprof's CSV: one row a dispatch, or one row a kernel with its number of calls."""
    for row in csv.DictReader(io.StringIO(text)):
        name = next((row[key] for key in _NAMES if row.get(key)), "")
        if not name:
            continue
        begin, end = _first(row, "Start_Timestamp", "BeginNs"), _first(row, "End_Timestamp", "EndNs")
        calls = int(_first(row, "Calls") or 1)
        total = _first(row, "TotalDurationNs") or end - begin
        for _ in range(calls):
            yield Kernel(name, "", total / calls / 1000)


def _first(row: Mapping[str, Any], *names: str) -> float:
    return next((_number(row[name]) for name in names if row.get(name)), 0.0)


def _number(value: Any) -> float:
    try:
        found = float(value)
    except (TypeError, ValueError):
        return 0.0
    return found if abs(found) < 1e30 else 0.0
