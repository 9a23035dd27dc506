"""How long the README's first command takes: clean clone to verified site, with nothing changed, rebuild.

Each figure stands beside something measured in the same run that it cannot beat: the clone beside a bare
install of the same lock, the second run beside starting Python once per command it runs, the rebuild beside
a bare `mkdocs build` of the same generated pages. Repeats are interleaved, medians are printed.

    python benchmarks/bench_report.py [--pipeline report] [--repeats 5] [--warm]
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[1]
_COMMANDS = 2  # `make report` with nothing changed starts k3repro twice: run, site build


def main() -> None:
    """Measure in a temporary folder and print one table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pipeline", default="report")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--warm", action="store_true", help="use the package caches of this user (default: none)"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="k3-bench-") as name:
        print_table(measure(Path(name), options), options)


def measure(folder: Path, options: argparse.Namespace) -> list[tuple[str, float, str, float, float]]:
    """Rows of (what, seconds, beside what, seconds, limit in seconds)."""
    clone, bare = folder / "clone", folder / "bare"
    environment = dict(os.environ)
    if not options.warm:
        environment |= {"UV_CACHE_DIR": str(folder / "uv-cache"), "PIP_NO_CACHE_DIR": "1"}
    report = ["make", "report", f"PIPELINE={options.pipeline}"]
    for place in (clone, bare):
        run(["git", "clone", "--quiet", str(ROOT), str(place)], folder, environment)
    first = timed(lambda: run(report, clone, environment))
    shutil.rmtree(folder / "uv-cache", ignore_errors=True)
    install = timed(lambda: run(["make", ".venv/.report"], bare, environment))
    again, start, rebuild, mkdocs = interleaved(
        options.repeats,
        lambda: run(report, clone, environment),
        lambda: start_python(clone),
        lambda: run([".venv/bin/k3repro", "site", "build", "--force"], clone, environment),
        lambda: run(
            [".venv/bin/mkdocs", "build", "-q", "-f", mkdocs_file(clone), "-d", str(folder / "out")], clone
        ),
    )
    return [
        ("clean clone to verified site", first, "installing the same lock", install, 300.0),
        ("second run, nothing changed", again, f"starting Python {_COMMANDS} times", start, 4.0),
        ("site rebuilt from artifacts", rebuild, "bare mkdocs build of its pages", mkdocs, 15.0),
    ]


def mkdocs_file(clone: Path) -> str:
    """The configuration that the site build generated."""
    return str(
        next(iter(sorted((clone / "site").glob(".generated/**/mkdocs.yml"))), clone / "site" / "mkdocs.yml")
    )


def start_python(clone: Path) -> None:
    """Start the clone's Python as often as the command does, importing what every command must."""
    for _ in range(_COMMANDS):
        run([".venv/bin/python", "-c", "import click, duckdb"], clone)


def interleaved(repeats: int, *actions: Callable[[], None]) -> list[float]:
    """Median seconds of each action, taken in turns so that a busy minute hits all alike."""
    rounds = [[timed(action) for action in actions] for _ in range(repeats)]
    return [statistics.median(column) for column in zip(*rounds, strict=True)]


def timed(action: Callable[[], None]) -> float:
    """Seconds that an action takes."""
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def run(command: list[str], folder: Path, environment: dict[str, str] | None = None) -> None:
    """Run quietly; leave with the command's output when it fails."""
    done = subprocess.run(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed in {folder}:\n{done.stdout[-3000:]}")


def print_table(rows: list[tuple[str, float, str, float, float]], options: argparse.Namespace) -> None:
    """One line a figure: seconds, limit, floor and ratio."""
    caches = "user's package caches" if options.warm else "no package caches"
    print(f"pipeline {options.pipeline}, {caches}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    print(f"{'what':30} {'s':>7} {'limit':>6}  {'beside':32} {'s':>6} {'ratio':>6}")
    for what, seconds, beside, floor, limit in rows:
        print(f"{what:30} {seconds:7.2f} {limit:6.0f}  {beside:32} {floor:6.2f} {seconds / floor:6.2f}")


if __name__ == "__main__":
    main()
