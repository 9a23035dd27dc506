"""Full verification of one artifact of 10 million rows x 6 columns, against the least any verifier must do.

    python benchmarks/bench_verify.py [ROWS]

Each repeat runs, interleaved and each in its own process: `Store.verify(full=True)`; the SHA-256 of the
file's bytes and of as many bytes as the rows have in canonical form (the floor: every byte has to be hashed);
and a DuckDB scan that hashes every value on one thread (the peer). All figures are of whole processes.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from k3repro.store import Column, Header, Schema, Store, Table
from k3repro.store._sealing import Draft, publish_draft
from k3repro.store._vectors import Batch, Vector

REPEATS = 3
SCHEMA = Schema(
    [
        Table(
            "samples",
            [
                Column("id", "INT64"),
                Column("lane", "INT64"),
                Column("wall_s", "DOUBLE", "s"),
                Column("tpot_s", "DOUBLE", "s"),
                Column("ok", "BOOL"),
                Column("request_id", "VARCHAR"),
            ],
            key=("id",),
        )
    ]
)


def payload(rows: int) -> Batch:
    """Deterministic columns: distinct texts, one DOUBLE in ten NULL."""
    ids = np.arange(rows, dtype="<i8")
    walls = (ids * 2654435761 % 1_000_003) / 997.0
    every, tenth = np.ones(rows, dtype=bool), ids % 10 != 0
    texts = np.array([f"r{i:08d}" for i in range(rows)], dtype=object)
    return {
        "id": Vector("INT64", every, ids),
        "lane": Vector("INT64", every, ids % 16),
        "wall_s": Vector("DOUBLE", every, walls),
        "tpot_s": Vector("DOUBLE", tenth, np.where(tenth, walls / 7, 0.0)),
        "ok": Vector("BOOL", every, ids % 3 != 0),
        "request_id": Vector("VARCHAR", every, texts),
    }


def build(root: Path, rows: int) -> Path:
    """Seal the artifact; returns its file."""
    store = Store(root)
    header = Header("bench", "numbers", "transcription", "bench:build", citation={"document": "none"})
    batch = {"samples": payload(rows)}
    draft = Draft(
        header, SCHEMA, "", "bench", {}, batch, {"ok": True, "reasons": []}, root / ".wip" / "bench"
    )
    return publish_draft(store, draft).path


PROGRAMS = {
    "verify --full": "from k3repro.store import Store; assert Store({root!r}).verify(full=True) == []",
    "hash the bytes": (
        "import hashlib; hashlib.file_digest(open({file!r}, 'rb'), 'sha256')\n"
        "h, block = hashlib.sha256(), bytes(1 << 20)\n"
        "for _ in range({canonical} >> 20): h.update(block)"
    ),
    "DuckDB scan": (
        "import duckdb; duckdb.connect({file!r}, read_only=True, config={{'threads': 1}}).execute("
        "'SELECT bit_xor(hash(id, lane, wall_s, tpot_s, ok, request_id)) FROM samples').fetchone()"
    ),
}


def timed(program: str) -> tuple[float, float, float]:
    """Wall seconds, CPU seconds and peak GiB of a Python process."""
    report = (
        "\nimport resource as r; u = r.getrusage(r.RUSAGE_SELF); print(u.ru_utime + u.ru_stime, u.ru_maxrss)"
    )
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", program + report], check=True, capture_output=True, text=True
    )
    cpu, peak = done.stdout.split()[-2:]
    return time.perf_counter() - started, float(cpu), int(peak) / 2**20


def main() -> None:
    """Build, measure, print one table."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    with tempfile.TemporaryDirectory() as folder:
        # In a child, so that the memory it takes does not stay with this process.
        here = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import bench_verify as b; "
        timed(f"{here}b.build(b.Path({folder!r}), {rows})")
        file = next(Path(folder).glob("bench/*.duckdb"))
        canonical = rows * (8 * 4 + 1 + 4 + 9) + rows * 6 // 8
        values = {"root": folder, "file": str(file), "canonical": canonical}
        runs = [
            {name: timed(text.format(**values)) for name, text in PROGRAMS.items()} for _ in range(REPEATS)
        ]
        size = file.stat().st_size / 1e6
    floor = statistics.median(run["hash the bytes"][1] for run in runs)
    print(f"{rows:,} rows x 6 columns, file {size:,.0f} MB, median of {REPEATS} interleaved repeats")
    print(f"{'':16}{'wall s':>8}{'CPU s':>8}{'CPU x floor':>13}{'peak GiB':>10}")
    for name in PROGRAMS:
        wall, cpu, peak = (statistics.median(run[name][i] for run in runs) for i in range(3))
        print(f"{name:16}{wall:8.2f}{cpu:8.2f}{cpu / floor:13.1f}{peak:10.2f}")


if __name__ == "__main__":
    main()
