"""Every figure that has a bar, in one table: `make bench`.

    python benchmarks/bench_all.py [--minutes 10] [--peer PYTHON]

Each script of this folder can be run alone and says more. A ratio is to a peer or a limit measured in the
same run. What cannot be measured here, or not in the time that is left, is listed as NOT RUN. Other work on
the machine spoils wall times first: the load average stands above the table.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _figures import COLLECT, Figure, line

HERE = Path(__file__).parent
# (script, arguments, seconds it may take), the quickest first
SCRIPTS: list[tuple[str, list[str], int]] = [
    ("bench_requant.py", ["--megabytes", "64", "--repeats", "3"], 90),
    ("bench_client.py", ["--requests", "2000", "--repeats", "3"], 90),
    ("bench_deadlines.py", ["--streams", "8000", "--tokens", "16"], 60),
    ("bench_twin.py", ["--requests", "5000", "--repeats", "3"], 150),
    ("bench_headers.py", ["--repeats", "1"], 150),
    ("bench_site.py", ["--repeats", "1"], 240),
]
ELSEWHERE = [
    ("kernels on a GPU (bench_kernel.py)", "no nvidia-smi here", lambda: shutil.which("nvidia-smi") is None),
    ("report from a clean clone (bench_report.py)", "takes minutes: run it alone", lambda: True),
    ("probes on a served model (benchmarks/gpu)", "docs/gpu-engine.md", lambda: True),
]


def run(script: str, arguments: list[str], limit: float, figures: Path) -> str:
    """Run one script; why it was not run to its end, or ""."""
    command = [sys.executable, str(HERE / script), *arguments]
    environment = {**os.environ, COLLECT: str(figures)}
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=limit, check=False
        )
    except subprocess.TimeoutExpired:
        return f"not done in the {limit:.0f} s it was given"
    if done.returncode:
        return f"ended with {done.returncode}: {(done.stderr.strip() or 'see its output').splitlines()[-1]}"
    return ""


def main() -> None:
    """Run the scripts in turn and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10, help="time for everything")
    parser.add_argument("--peer", help="interpreter of an environment with hf-mem")
    options = parser.parse_args()
    end = time.monotonic() + 60 * options.minutes
    missing = [(name, why) for name, why, absent in ELSEWHERE if absent()]
    if not options.peer:
        missing.insert(0, ("headers against hf-mem", "--peer PYTHON, with hf-mem installed there"))
    print(f"{len(os.sched_getaffinity(0))} cores, load average {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as folder:
        figures = Path(folder) / "figures"
        figures.touch()
        told = 0
        for script, arguments, limit in SCRIPTS:
            given = min(limit, end - time.monotonic())
            peer = ["--peer", options.peer] if options.peer and script == "bench_headers.py" else []
            why = run(script, [*arguments, *peer], given, figures) if given > 10 else "no time was left"
            found: list[Figure] = [json.loads(text) for text in figures.read_text().splitlines()]
            for measured in found[told:]:
                print(line(measured), flush=True)
            told = len(found)
            if why:
                missing.append((script, why))
    print("".join(f"\nNOT RUN: {name}: {why}" for name, why in missing))


if __name__ == "__main__":
    main()
